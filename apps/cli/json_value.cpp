#include "cli/json_value.hpp"

#include "narrow/text/quote.hpp"

namespace app {

std::string json_text(const Json& value) {
  return narrow::visible(value.dump(2, ' ', false, Json::error_handler_t::replace), "\n") + "\n";
}

}  // namespace app
