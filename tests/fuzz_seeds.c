/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_seeds FOLDER...: a short run of the fuzz target (fuzz_trace.c) without libFuzzer: each seed as
 * it is, and some thousand mutants of it: bytes changed, pieces cut out, doubled or moved, the end
 * cut off. The mutants are the same on each run. What it finds, the sanitizers say.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED_MAX (64 * 1024)
#define MUTANTS  2000 /* of each seed: the whole run stays below half a minute under sanitizers */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t state = 1;

/* splitmix64 (S. Vigna): 0 .. n-1 */
static size_t below(size_t n)
{
	uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return n ? (size_t)((z ^ (z >> 31)) % n) : 0;
}

/* Changes one thing; buf has room for SEED_MAX bytes. */
static size_t mutate(uint8_t *buf, size_t n)
{
	static const char *const words[] = { "-1",  "9223372036854775808", "nan", "\"", "[[[[",
					     "\0\0" };
	size_t at = below(n), length = below(n - at < 64 ? n - at : 64);
	const char *word = words[below(6)];

	switch (below(5)) {
	case 0:
		buf[at] ^= (uint8_t)(1u << below(8));
		return n;
	case 1:
		memmove(buf + at, buf + at + length, n - at - length);
		return n - length;
	case 2:
		if (n + length > SEED_MAX)
			return n;
		memmove(buf + at + length, buf + at, n - at);
		return n + length;
	case 3:
		for (size_t i = 0; i < strlen(word) && at + i < n; i++)
			buf[at + i] = (uint8_t)word[i];
		return n;
	default:
		return at;
	}
}

static void try_seed(const uint8_t *seed, size_t n)
{
	uint8_t *buf = malloc(SEED_MAX);

	LLVMFuzzerTestOneInput(seed, n);
	for (unsigned k = 0; buf && k < MUTANTS; k++) {
		size_t m = n;

		memcpy(buf, seed, n);
		for (size_t i = below(4) + 1; i && m; i--)
			m = mutate(buf, m);
		LLVMFuzzerTestOneInput(buf, m);
	}
	free(buf);
}

/* How many seeds the folder has. */
static unsigned try_folder(const char *path)
{
	DIR *dir = opendir(path);
	uint8_t *seed = malloc(SEED_MAX);
	struct dirent *entry;
	unsigned seeds = 0;

	while (dir && seed && (entry = readdir(dir))) {
		char name[1024];
		size_t n;
		FILE *f;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		f = fopen(name, "rb");
		n = f ? fread(seed, 1, SEED_MAX, f) : 0;
		if (f)
			fclose(f);
		if (n) {
			try_seed(seed, n);
			seeds++;
		}
	}
	if (dir)
		closedir(dir);
	free(seed);
	return seeds;
}

int main(int argc, char **argv)
{
	int failed = 0;

	printf("1..%d\n", argc - 1);
	for (int i = 1; i < argc; i++) {
		unsigned seeds = try_folder(argv[i]);
		const char *slash = strrchr(argv[i], '/');

		printf("%sok %d - %s: %u seeds and %u mutants of each\n", seeds ? "" : "not ", i,
		       slash ? slash + 1 : argv[i], seeds, MUTANTS);
		fflush(stdout);
		failed |= !seeds;
	}
	return failed;
}
