/* SPDX-License-Identifier: Apache-2.0
 *
 * environment: processor, kernel, compiler, build, clock and device of a result.
 *
 * Shape     fixed buffers; what a system does not tell stays "unknown", never an error: a result
 *           is worth having without the name of its processor.
 * Threads   any
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "environment.h"

#ifndef GP_BUILD_TYPE
#ifdef __OPTIMIZE__
#define GP_BUILD_TYPE "optimized"
#else
#define GP_BUILD_TYPE "not optimized"
#endif
#endif

/* The value of "key : value", without the line's end; NULL: another key. */
static const char *environment_value(char *line, const char *key)
{
	char *colon = strchr(line, ':');

	if (!colon || strncmp(line, key, strlen(key)) != 0)
		return NULL;
	colon[strcspn(colon, "\n")] = '\0';
	colon++;
	return colon + strspn(colon, " \t");
}

static void environment_cpu(char *out, size_t size, const char *machine)
{
	/* x86; POWER; older Arm. A processor that gives none of them is named by its kind. */
	static const char *const keys[] = { "model name", "cpu\t", "Processor" };
	char line[512];
	FILE *f = fopen("/proc/cpuinfo", "r");

	snprintf(out, size, "%s", machine);
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		for (size_t i = 0; i < GP_ARRAY_LEN(keys); i++) {
			const char *value = environment_value(line, keys[i]);

			if (value && value[0]) {
				snprintf(out, size, "%.*s", (int)size - 1, value);
				fclose(f);
				return;
			}
		}
	}
	fclose(f);
}

static void environment_compiler(char *out, size_t size)
{
#if defined(__clang__)
	snprintf(out, size, "clang %d.%d.%d", __clang_major__, __clang_minor__,
		 __clang_patchlevel__);
#elif defined(__GNUC__)
	snprintf(out, size, "gcc %d.%d.%d", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#else
	snprintf(out, size, "unknown");
#endif
}

static void environment_date(char *out, size_t size)
{
	time_t now = time(NULL);
	struct tm tm;

	if (!gmtime_r(&now, &tm) || !strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &tm))
		snprintf(out, size, "unknown");
}

void gp_environment_gather(struct gp_environment *env, const struct gp_device_info *info)
{
	const struct gp_clock *clock = gp_clock_get();
	struct utsname system = { .sysname = "unknown", .machine = "unknown" };
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	*env = (struct gp_environment){ .device = *info, .build = GP_BUILD_TYPE };
	uname(&system);
	snprintf(env->kernel, sizeof(env->kernel), "%.30s %.40s %.20s", system.sysname,
		 system.release, system.machine);
	environment_cpu(env->cpu, sizeof(env->cpu), system.machine);
	env->cores = cores > 0 ? (unsigned)cores : 1;
	environment_compiler(env->compiler, sizeof(env->compiler));
	environment_date(env->date, sizeof(env->date));
	/* NAN is written as null: not known. */
	env->timer_overhead_ns = clock ? clock->overhead_ns : NAN;
	env->timer_step_ns = clock ? clock->step_ns : NAN;
}
