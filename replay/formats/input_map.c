/* SPDX-License-Identifier: Apache-2.0
 *
 * input_map: see input_map.h.
 *
 * Memory      copied input: doubles as the data come, whatever the file claims about its size.
 * Not done    a file that another program changes while it is mapped: shortened, it ends this
 *             program with SIGBUS. gpupool's own tools replace files and never write into them.
 * Threads     caller serialises.
 */
#include "input_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define INPUT_MAP_MIN ((size_t)256 * 1024)

/* False: it is to be copied. */
static bool map_file(const struct gp_input *in, struct gp_input_map *out)
{
	struct stat st;
	void *p;

	/* Standard input may stand in the middle of a file. */
	if (in->fd < 0 || in->inflate || !in->owns_fd)
		return false;
	if (fstat(in->fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0)
		return false;
	if ((uint64_t)st.st_size > SIZE_MAX)
		return false;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, in->fd, 0);
	if (p == MAP_FAILED)
		return false;
	*out = (struct gp_input_map){ p, (size_t)st.st_size, (size_t)st.st_size };
	return true;
}

static int copy_input(struct gp_input *in, size_t limit, struct gp_input_map *out)
{
	size_t capacity = INPUT_MAP_MIN, used = 0;
	unsigned char *data = malloc(capacity);

	while (data && used < limit && (in->p < in->end || gp_input_fill(in))) {
		size_t n = (size_t)(in->end - in->p);

		n = n < limit - used ? n : limit - used;
		if (n > capacity - used) {
			unsigned char *grown = realloc(data, 2 * capacity);

			if (!grown)
				free(data);
			data = grown;
			capacity *= 2;
			continue;
		}
		memcpy(data + used, in->p, n);
		in->p += n;
		used += n;
	}
	*out = (struct gp_input_map){ data, used, 0 };
	return data ? 0 : -ENOMEM;
}

int gp_input_map(struct gp_input *in, size_t limit, struct gp_input_map *out)
{
	return map_file(in, out) ? 0 : copy_input(in, limit, out);
}

void gp_input_unmap(struct gp_input_map *m)
{
	if (m->map_bytes)
		munmap(m->data, m->map_bytes);
	else
		free(m->data);
	*m = (struct gp_input_map){ 0 };
}
