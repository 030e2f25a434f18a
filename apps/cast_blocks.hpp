// narrow cast --to a block format: codes and scales of each tensor as tensors of their own.
#pragma once

#include <string>

#include "tensor_choice.hpp"

namespace app {

struct BlockCastRequest {
  std::string input, output, format;
  TensorOptions choice;
  bool values = false, json = false;
};

// NAME holds the codes, NAME.scale the scales of the blocks, NAME.scale2 the level above them (NVFP4); metadata
// "narrow.block_format.NAME" names the format and its rule. With values: NAME holds what the codes decode to, as F32.
int cast_to_blocks(const BlockCastRequest& request);

}  // namespace app
