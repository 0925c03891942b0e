/* SPDX-License-Identifier: Apache-2.0
 *
 * child: runs gnuplot and waits for it.
 */
#ifndef PLOT_CHILD_H
#define PLOT_CHILD_H

/* argv[0] is looked up in $PATH unless it holds a '/'. What the program says is shown only when it
 * fails, one cli_error a line. Returns 0 or an exit code of ours (cli.h), after cli_error. */
int plot_run_child(const char *const *argv);

#endif
