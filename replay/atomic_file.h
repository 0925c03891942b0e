/* SPDX-License-Identifier: Apache-2.0
 *
 * atomic_file: an output file that is either there whole or not there at all.
 *
 *   open     a temporary file in the same folder, to write to .stream
 *   finish   flushed, on the disk and closed, still under its temporary name
 *   publish  renamed; a reader sees the old file or the new one, never half of one
 *   discard  the temporary file is removed; harmless after publish
 *
 * Several files become visible together, or none of them, when all are finished before the first
 * is published. What is no regular file (a terminal, a pipe, /dev/null) is written directly.
 */
#ifndef GP_ATOMIC_FILE_H
#define GP_ATOMIC_FILE_H

#include <stdbool.h>
#include <stdio.h>

struct gp_atomic_file {
	FILE *stream; /* NULL once finished */
	char *path;   /* where it will be; a symbolic link's target */
	char *temp;   /* NULL: written directly */
};

/* Each: 0 or -errno. After a failure only discard is needed (and after a failed open not even
 * that). */
int gp_atomic_open(struct gp_atomic_file *f, const char *path);
int gp_atomic_finish(struct gp_atomic_file *f);
int gp_atomic_publish(struct gp_atomic_file *f);
void gp_atomic_discard(struct gp_atomic_file *f);
/* finish and publish, or discard. */
int gp_atomic_close(struct gp_atomic_file *f);

/* Creates a folder and its missing parents, and tries whether a file can be made in it. *n_made is
 * the number of folders that did not exist before. 0 or -errno, and then nothing is left behind. */
int gp_folder_create(const char *dir, unsigned *n_made);
/* Undoes gp_folder_create: removes the last n_made folders of the path, those that are empty. It
 * ends at a component "..", whose folder the path does not name. */
void gp_folder_remove(const char *dir, unsigned n_made);

#endif
