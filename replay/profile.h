/* SPDX-License-Identifier: Apache-2.0
 *
 * profile: a device profile (allocators/device/device_profile.h) as a file, JSON:
 *
 *   { "format": "gpupool-profile", "version": 1, "name": "h200", "source": "...",
 *     "simulated": false,
 *     "machine": {"card": "NVIDIA H200", "driver": "580", "cuda": "13.0", "cpu": "...",
 *                 "cores": 16, "os": "...", "date": "...", "gpupool": "0.1.0"},
 *     "memory": {"total_bytes": N, "free_bytes": N, "page_bytes": 2097152},
 *     "calls": {"cudaMalloc.held": [
 *       {"size": 256, "n": 1000, "min_ns": N, "p50_ns": N, "p90_ns": N, "p99_ns": N,
 *        "max_ns": N, "mean_ns": N}, ...], ...},
 *     "notes": ["...", ...] }
 *
 * All numbers are whole. "mean_ns", "source" and "notes" may be left out, and so may what a machine
 * does not tell. Keys that this version does not know are passed over. The sizes of a call ascend,
 * and so do the times of a row; a file in which they do not is refused, as is one from which no
 * device can be made.
 */
#ifndef GP_PROFILE_H
#define GP_PROFILE_H

#include "allocators/device/device_profile.h"

#define GP_PROFILE_FORMAT  "gpupool-profile"
#define GP_PROFILE_VERSION 1u

struct gp_input; /* formats/input.h */

/* "-" is standard input; gzip is recognised. 0, or -errno with one line in `why` ("FILE:LINE: what
 * is wrong, what was expected"); *out, which gp_profile_free takes, is written only on 0. */
int gp_profile_load(const char *path, struct gp_profile **out, char *why, size_t why_size);
/* The same from an input that is open, and stays so. */
int gp_profile_read(struct gp_input *in, struct gp_profile **out, char *why, size_t why_size);
/* NULL is fine. Returns NULL. */
struct gp_profile *gp_profile_free(struct gp_profile *p);

/* Writes the file whole or not at all; "-" and NULL are standard output. Texts are valid UTF-8. 0,
 * or -errno with one line in `why`. */
int gp_profile_save(const struct gp_profile *p, const char *const *notes, size_t n_notes,
		    const char *path, char *why, size_t why_size);

#endif
