// Compiled with -ffast-math by a test, to see that it is refused.
#include "narrow/format/format.hpp"
