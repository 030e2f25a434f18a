// The one exception: a request from outside that cannot be met. what() says what was asked and what is possible.
//
//   try {
//     require_format("fp8");
//   } catch (const Error& error) {
//     std::puts(error.what());  // what was asked, and what is accepted
//   }
#pragma once

#include <stdexcept>
#include <string>

namespace narrow {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace narrow
