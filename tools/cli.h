/* SPDX-License-Identifier: Apache-2.0
 *
 * cli: what the programs share: the option table, --help, messages, sizes and times for people,
 * the progress bar, colours, SIGINT.
 *
 *   cli.c           command line, messages, value parsers
 *   cli_text.c      sizes, times and numbers for people; may a stream carry colour
 *   cli_progress.c  the progress bar and SIGINT
 *
 * Threads   main thread only; the SIGINT flag may be read from any.
 */
#ifndef GP_CLI_H
#define GP_CLI_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes of every program. */
enum {
	CLI_OK = 0,
	CLI_FAILED = 1,        /* a check or an asked-for condition failed           */
	CLI_USAGE = 2,         /* bad usage, bad input, or an output file that fails */
	CLI_DEVICE = 3,        /* device error                                       */
	CLI_INTERRUPTED = 130, /* SIGINT; what there was has been saved (128 + 2)    */
};

/* One long option. `parse` gets the text after '=' (or the next argument); for an option without
 * value it gets NULL. It returns false after cli_error. */
struct cli_option {
	const char *name; /* "capacity"                                         */
	const char *arg;  /* "SIZE"; NULL: takes none; "[FILE]": optional, by = */
	const char *help; /* one line                                           */
	bool (*parse)(void *ctx, const char *name, const char *value);
};

struct cli_program {
	const char *name;     /* "gpupool-replay" */
	const char *synopsis; /* "[OPTION]... TRACE..." */
	const char *about;    /* one or two sentences */
	const struct cli_option
		*options;     /* ends with .name == NULL; --help and --version are added */
	const char *examples; /* printed as it is under "Examples:" */
};

/* Parses argv: options anywhere, "--" ends them. Operands are moved to argv[0..*n_operands-1].
 * Returns -1 to go on, otherwise the exit code (--help and --version: 0, misuse: 2). An unknown
 * option gets the nearest known one suggested. */
int cli_parse(const struct cli_program *program, void *ctx, int argc, char **argv, int *n_operands);

/* "PROGRAM: text" on standard error, one line (control characters become '?'). */
void cli_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void cli_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* From now on cli_note and the progress bar print nothing. */
void cli_set_quiet(bool quiet);
bool cli_is_quiet(void);
/* Flushes standard output; false after cli_error when something could not be written. */
bool cli_flush_output(void);

/* Value parsers: false after cli_error("--NAME=VALUE: expected ..., such as ..."). Of a value that is
 * part of an option's, NAME is all before it: "work=busy:". */
bool cli_size(const char *name, const char *value, uint64_t min, uint64_t max, uint64_t *out);
bool cli_count(const char *name, const char *value, uint64_t min, uint64_t max, uint64_t *out);
bool cli_real(const char *name, const char *value, double min, double max, double *out);
/* One of the words of `choices`, which ends with NULL; *out is its index. */
bool cli_choice(const char *name, const char *value, const char *const *choices, unsigned *out);

/* Typing errors between two words: insertions, deletions, substitutions, swapped neighbours.
 * Words longer than 63 bytes are compared by their first 63. */
unsigned cli_distance(const char *a, const char *b);
/* Is a word at that distance near enough to suggest it for one of `length` bytes? */
bool cli_is_near(unsigned distance, size_t length);

/* Text for people in buf (>= 32 bytes), which is returned: "9.28 GiB", "12.4 ns", "46 115". */
const char *cli_bytes(char *buf, uint64_t bytes);
const char *cli_time(char *buf, double ns);
const char *cli_number(char *buf, uint64_t n);

/* May standard output / error carry colour? No with NO_COLOR, TERM=dumb, or no terminal. */
bool cli_colour(FILE *stream);
/* How many columns a line of the terminal has; 0: no terminal, or it does not say. */
unsigned cli_columns(FILE *stream);

/* A progress bar on standard error with rate and remaining time; silent where that is no terminal.
 * done == total ends it and clears the line; total == 0: not known. */
void cli_progress(const char *phase, uint64_t done, uint64_t total);
void cli_progress_clear(void);

/* Installs the SIGINT handler; the first signal sets the flag, a second one ends the program. */
const volatile sig_atomic_t *cli_interrupted(void);

#endif
