/* iter.h - everything but the trainer (iter/engine.h). */
#ifndef ITER_ITER_H
#define ITER_ITER_H

#include <iter/chain.h>
#include <iter/convert.h>
#include <iter/dataset.h>
#include <iter/dlpack.h>
#include <iter/image.h>
#include <iter/loader.h>
#include <iter/ops.h>
#include <iter/option_rows.h>
#include <iter/plugin.h>
#include <iter/profile.h>
#include <iter/ranks.h>
#include <iter/registry.h>
#include <iter/rng.h>
#include <iter/sampler.h>
#include <iter/stages.h>
#include <iter/status.h>
#include <iter/tensor.h>
#include <iter/transforms.h>
#include <iter/version.h>

#endif
