/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_conf: the text that a PyTorch user has in PYTORCH_CUDA_ALLOC_CONF, made into a spec of the
 * `torch` allocator, and refused where PyTorch refuses it.
 */
#ifndef GP_TORCH_CONF_H
#define GP_TORCH_CONF_H

#include "../base.h"

struct gp_torch_conf {
	char spec[512];  /* "torch" or "torch:key=value,..." */
	char notes[512]; /* settings that are accepted and change nothing here */
	char why[256];   /* the refusal */
};

/* base: a spec of `torch` whose own settings come first, such as "torch:limit=8GiB"; NULL: "torch".
 * conf: "KEY:VALUE,KEY:[A:B,C:D]", where spaces are passed over. A setting that is given twice
 * counts as given last, as in PyTorch. 0, or -EINVAL with out->why. */
int gp_torch_conf_parse(const char *base, const char *conf, struct gp_torch_conf *out);

#endif
