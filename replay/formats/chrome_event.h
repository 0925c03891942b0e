/* SPDX-License-Identifier: Apache-2.0
 *
 * chrome_event: one event of a Chrome trace; see chrome_events.h.
 */
#ifndef GP_CHROME_EVENT_H
#define GP_CHROME_EVENT_H

#include "chrome_events.h"
#include "json_fields.h"

/* The current token opens an event: reads it to its end and keeps it in `c` when it is one of
 * memory. 0, GP_REFUSED (lenient: left out), or a negative number. When the JSON of the event is
 * broken, 0 and the current token is GP_JSON_ERROR. */
int gp_chrome_event(struct gp_chrome *c, struct gp_json *j, struct gp_trace_builder *b);

#endif
