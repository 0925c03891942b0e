/* SPDX-License-Identifier: Apache-2.0
 *
 * input_map: the whole input as one range of memory, for formats that are not read in order.
 * (With input.c, the one file that knows what is inside struct gp_input.)
 */
#ifndef GP_INPUT_MAP_H
#define GP_INPUT_MAP_H

#include "input.h"

struct gp_input_map {
	void *data;       /* aligned to 16 bytes at least; never NULL; not to be written to */
	size_t size;      /* of the content */
	size_t map_bytes; /* to unmap; 0: it is from malloc */
};

/* Nothing of the input may have been taken yet. A plain file is mapped; what is compressed, a pipe
 * or memory is read and copied, as far as `limit` bytes: more of it does not matter. 0 or -errno;
 * a fault of the input itself (gp_input_error) is no failure here: the data just end. */
int gp_input_map(struct gp_input *in, size_t limit, struct gp_input_map *out);
/* Gives it back; for who does not pass it on. */
void gp_input_unmap(struct gp_input_map *m);

#endif
