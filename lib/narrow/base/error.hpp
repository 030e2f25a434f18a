// The one exception: a request from outside that cannot be met. what() says what was asked and what is possible.
#pragma once

#include <stdexcept>
#include <string>

namespace narrow {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace narrow
