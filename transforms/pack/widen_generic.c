/* widen_generic.c - widens integers with what every processor of an architecture has. */
#include "transforms/pack/widen.h"

#define LEVEL generic
#include "transforms/pack/widen_template.h"
