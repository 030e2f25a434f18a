// The whole library but Eigen and fmt support (narrow/eigen.hpp, narrow/fmt.hpp), CUDA and pictures.
#pragma once

#include "narrow/arith/arith.hpp"
#include "narrow/arith/compare.hpp"
#include "narrow/arith/number.hpp"
#include "narrow/base/error.hpp"
#include "narrow/base/random.hpp"
#include "narrow/base/version.hpp"
#include "narrow/format/decode.hpp"
#include "narrow/format/find_format.hpp"
#include "narrow/format/neighbours.hpp"
#include "narrow/round/named_cast.hpp"
#include "narrow/round/round_to.hpp"
#include "narrow/text/names.hpp"
#include "narrow/text/parse.hpp"
#include "narrow/text/print.hpp"
