/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_words: the strings of a PyTorch snapshot: those with a meaning, and the few that are kept.
 *
 * Cost        a word is found among those of its length: at most six comparisons.
 * Memory      each different text once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "torch_snapshot.h"

static const char *const words[] = {
	[GP_TORCH_ACTION] = "action",
	[GP_TORCH_ADDR] = "addr",
	[GP_TORCH_SIZE] = "size",
	[GP_TORCH_STREAM] = "stream",
	[GP_TORCH_TIME_US] = "time_us",
	[GP_TORCH_DEVICE_FREE] = "device_free",
	[GP_TORCH_STATE] = "state",
	[GP_TORCH_ADDRESS] = "address",
	[GP_TORCH_REQUESTED_SIZE] = "requested_size",
	[GP_TORCH_REAL_SIZE] = "real_size",
	[GP_TORCH_HISTORY] = "history",
	[GP_TORCH_BLOCKS] = "blocks",
	[GP_TORCH_DEVICE] = "device",
	[GP_TORCH_TOTAL_SIZE] = "total_size",
	[GP_TORCH_NAME] = "name",
	[GP_TORCH_STAGE] = "stage",
	[GP_TORCH_SEGMENTS] = "segments",
	[GP_TORCH_DEVICE_TRACES] = "device_traces",
	[GP_TORCH_ALLOCATOR_SETTINGS] = "allocator_settings",
	[GP_TORCH_EXTERNAL_ANNOTATIONS] = "external_annotations",
	[GP_TORCH_ALLOC_CONF] = "PYTORCH_CUDA_ALLOC_CONF",
	[GP_TORCH_POOL_ID] = "pool_id",
	[GP_TORCH_SEGMENT_POOL_ID] = "segment_pool_id",
	[GP_TORCH_ALLOC] = "alloc",
	[GP_TORCH_FREE] = "free",
	[GP_TORCH_FREE_REQUESTED] = "free_requested",
	[GP_TORCH_FREE_COMPLETED] = "free_completed",
	[GP_TORCH_SEGMENT_ALLOC] = "segment_alloc",
	[GP_TORCH_SEGMENT_FREE] = "segment_free",
	[GP_TORCH_SEGMENT_MAP] = "segment_map",
	[GP_TORCH_SEGMENT_UNMAP] = "segment_unmap",
	[GP_TORCH_OOM] = "oom",
	[GP_TORCH_SNAPSHOT] = "snapshot",
	[GP_TORCH_USER_DEFINED] = "user_defined",
	[GP_TORCH_ACTIVE_ALLOCATED] = "active_allocated",
	[GP_TORCH_ACTIVE_PENDING_FREE] = "active_pending_free",
	[GP_TORCH_ACTIVE_AWAITING_FREE] = "active_awaiting_free",
	[GP_TORCH_INACTIVE] = "inactive",
	[GP_TORCH_START] = "START",
	[GP_TORCH_END] = "END",
};

_Static_assert(GP_ARRAY_LEN(words) == GP_TORCH_WORDS, "every word has its spelling");

#define WORD_LENGTHS 24u /* one more than the longest */

/* The words by length: those of length n are order[first[n] ... first[n + 1] - 1]. */
static const uint8_t word_order[] = {
	GP_TORCH_OOM,
	GP_TORCH_END,
	GP_TORCH_ADDR,
	GP_TORCH_SIZE,
	GP_TORCH_NAME,
	GP_TORCH_FREE,
	GP_TORCH_STATE,
	GP_TORCH_STAGE,
	GP_TORCH_ALLOC,
	GP_TORCH_START,
	GP_TORCH_ACTION,
	GP_TORCH_STREAM,
	GP_TORCH_BLOCKS,
	GP_TORCH_DEVICE,
	GP_TORCH_TIME_US,
	GP_TORCH_ADDRESS,
	GP_TORCH_HISTORY,
	GP_TORCH_POOL_ID,
	GP_TORCH_SEGMENTS,
	GP_TORCH_SNAPSHOT,
	GP_TORCH_INACTIVE,
	GP_TORCH_REAL_SIZE,
	GP_TORCH_TOTAL_SIZE,
	GP_TORCH_DEVICE_FREE,
	GP_TORCH_SEGMENT_MAP,
	GP_TORCH_SEGMENT_FREE,
	GP_TORCH_USER_DEFINED,
	GP_TORCH_DEVICE_TRACES,
	GP_TORCH_SEGMENT_ALLOC,
	GP_TORCH_SEGMENT_UNMAP,
	GP_TORCH_REQUESTED_SIZE,
	GP_TORCH_FREE_REQUESTED,
	GP_TORCH_FREE_COMPLETED,
	GP_TORCH_SEGMENT_POOL_ID,
	GP_TORCH_ACTIVE_ALLOCATED,
	GP_TORCH_ALLOCATOR_SETTINGS,
	GP_TORCH_ACTIVE_PENDING_FREE,
	GP_TORCH_EXTERNAL_ANNOTATIONS,
	GP_TORCH_ACTIVE_AWAITING_FREE,
	GP_TORCH_ALLOC_CONF,
};

static const uint8_t word_first[WORD_LENGTHS + 1] = {
	0,  0,  0,  0,  2,  6,  10, 14, 18, 21, 22, 23, 25,
	27, 30, 33, 34, 35, 35, 36, 37, 39, 39, 39, 40,
};

uint32_t gp_torch_word(const char *text, size_t n)
{
	if (n >= WORD_LENGTHS)
		return GP_TORCH_NO_WORD;
	for (unsigned i = word_first[n]; i < word_first[n + 1]; i++)
		if (!memcmp(text, words[word_order[i]], n))
			return word_order[i];
	return GP_TORCH_NO_WORD;
}

const char *gp_torch_word_name(uint32_t word)
{
	return words[word];
}

bool gp_torch_keeps(uint32_t word)
{
	return word == GP_TORCH_NAME || word == GP_TORCH_ALLOC_CONF || word == GP_TORCH_ACTION ||
	       word == GP_TORCH_STATE || word == GP_TORCH_STAGE;
}

/* FNV-1a. Whoever makes texts collide only has them kept twice. */
static uint64_t text_hash(const char *text, size_t n)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	return h;
}

int gp_torch_text(struct gp_torch *s, const char *text, size_t n, uint64_t *out)
{
	uint64_t h = text_hash(text, n);
	uint32_t known = gp_id_map_find(&s->text_map, h);
	char *copy;
	int r;

	*out = known;
	if (known != GP_ID_MAP_NONE && strlen(s->texts[known]) == n &&
	    !memcmp(s->texts[known], text, n))
		return 0;
	if (s->n_texts == GP_TORCH_TEXTS_MAX)
		return gp_trace_builder_refuse(s->builder, 0,
					       "more than %u different names, expected fewer",
					       GP_TORCH_TEXTS_MAX);
	r = gp_torch_reserve(&s->texts, s->n_texts, &s->texts_capacity, sizeof(*s->texts));
	copy = r ? NULL : malloc(n + 1);
	if (!copy || gp_id_map_put(&s->text_map, h, (uint32_t)s->n_texts)) {
		free(copy);
		return -ENOMEM;
	}
	memcpy(copy, text, n);
	copy[n] = '\0';
	*out = s->n_texts;
	s->texts[s->n_texts++] = copy;
	return 0;
}
