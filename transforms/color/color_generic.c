/* color_generic.c - the colour kernels for every processor. */
#define LEVEL generic
#include "transforms/color/color_template.h"
