// narrow formats --devices: which device multiplies and converts in which format.
#pragma once

#include <vector>

#include "cli/json_value.hpp"
#include "cli/terminal.hpp"
#include "options/format_list.hpp"

namespace app {

// Columns are these formats; where none is asked for, all that some device has.
TextTable device_list(const std::vector<ChosenFormat>& formats, bool colour);
Json device_list_json(const std::vector<ChosenFormat>& formats);

inline constexpr const char* device_list_legend =
    "P matrix products with operands of the format; S scales of blocks that such a product multiplies in; C an\n"
    "instruction that converts FP32 to it (fp32: FP64). ? not documented. Arithmetic without a matrix unit is not "
    "listed.\n";

}  // namespace app
