/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_text: names and notes of a recording, made fit to be shown and to be written again.
 *
 * Shape       they end up on terminals, in pictures and in JSON: control characters, the two-byte
 *             ones of C1 included, and bytes that are no UTF-8 become '?'.
 * Cost        one pass
 * Threads     any
 */
#include "trace_builder.h"

#include <string.h>

/* The length of the UTF-8 character at s (RFC 3629: no surrogates, no long forms, up to U+10FFFF);
 * 0: there is none. Stops at the final NUL by itself. */
static size_t text_character(const unsigned char *s)
{
	size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (s[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))
		return 0;
	return n;
}

static bool text_is_control(const unsigned char *s)
{
	return s[0] < 0x20 || s[0] == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0);
}

char *gp_trace_copy_text(const char *s)
{
	char *copy = strndup(s ? s : "", GP_TRACE_TEXT_MAX);
	unsigned char *p = (unsigned char *)copy;

	while (p && *p) {
		size_t n = text_character(p);

		if (!n || text_is_control(p))
			memset(p, '?', n ? n : 1);
		p += n ? n : 1;
	}
	return copy;
}
