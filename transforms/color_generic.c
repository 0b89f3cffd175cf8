/* color_generic.c - the colour kernels for every processor. */
#define LEVEL generic
#include "transforms/color_template.h"
