/* SPDX-License-Identifier: Apache-2.0
 *
 * example_embed: a program with a pool in it, on the GPU if there is one, else on the simulated
 * device. The same program is in README.md, "Using the library from C".
 */
#include <stdio.h>

#include <gpupool/allocator.h>

int main(void)
{
	struct gp_device_config config = { .capacity = 8 * GP_GIB }; /* 0: all of the card */
	struct gp_request request = { .size = 3 * GP_MIB };
	struct gp_device *device = NULL;
	struct gp_allocator *pool = NULL;
	struct gp_block block;
	char why[160];
	int r = gp_device_open_cuda(&config, &device, why, sizeof(why));

	if (r)
		r = gp_device_open_sim(&config, &device, why, sizeof(why));
	if (!r)
		r = gp_allocator_create("segregated:classes=8", device, NULL, &pool, why,
					sizeof(why));
	if (!r)
		r = gp_alloc(pool, &request, &block);
	if (!r) { /* kernels and copies take (void *)(uintptr_t)block.addr */
		printf("%s: %llu bytes\n", device->info.name, (unsigned long long)block.granted);
		r = gp_free(pool, block.addr);
	}
	if (r)
		fprintf(stderr, "%s\n", pool ? gp_result_text(r) : why);
	gp_allocator_destroy(pool);
	gp_device_close(device);
	return r != 0;
}
