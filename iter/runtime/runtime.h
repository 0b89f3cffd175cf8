/* umbrella */
#ifndef ITER_RUNTIME_RUNTIME_H
#define ITER_RUNTIME_RUNTIME_H
#include "iter/core/thread.h"
#include "iter/core/time.h"
#include "iter/profile/profiler.h"
#include "iter/runtime/activity.h"
#include "iter/runtime/batch_profile.h"
#include "iter/runtime/loader_state.h"
#include <signal.h>
#endif
