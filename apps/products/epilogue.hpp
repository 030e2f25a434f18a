// The words of --epilogue: what a kernel makes of a sum before it becomes an output.
#pragma once

#include "products/product_options.hpp"

namespace app {

// Puts what the words say into the product's options, after load_product. Throws narrow::Error for unknown words, for
// an order that is none, and for a bias that is not there.
void read_epilogue(const ProductOptions& options, ProductInputs& inputs);

}  // namespace app
