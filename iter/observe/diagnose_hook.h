/* diagnose_hook.h - ITER_DIAGNOSE: a verdict for each loader of a program that knows of none. */
#ifndef ITER_OBSERVE_DIAGNOSE_HOOK_H
#define ITER_OBSERVE_DIAGNOSE_HOOK_H

#include "iter/runtime/loader_state.h"

/* If ITER_DIAGNOSE is set, finds libiter-diagnose and lets it watch the loader. If it cannot be
 * found, the statistics note it. */
void iter__diagnose_autostart(iter_loader *loader);

#endif
