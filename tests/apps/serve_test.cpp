// The server of `narrow explore` from inside: times, places, and requests as text.
#include "explorer/serve.hpp"

#include <atomic>
#include <numeric>

#include "explorer/http_request.hpp"
#include "web_client.hpp"

using namespace test;

namespace {

using std::chrono::milliseconds;

// A server that runs beside the test.
class Running {
 public:
  explicit Running(const app::WebLimits& limits) : server_(0, limits) {
    server_.add("/a", {.body = "answer"});
    server_.add("/long", {.body = std::string(64 << 20, 'x')});
    thread_ = std::thread([this] { server_.run([this] { return stop_.load(); }); });
  }
  ~Running() {
    stop_ = true;
    thread_.join();
  }
  int port() const { return server_.port(); }
  std::string request(const std::string& path) const {
    return "GET " + path + " HTTP/1.1\r\nHost: localhost:" + std::to_string(port()) + "\r\n\r\n";
  }

 private:
  app::WebServer server_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("apps: a client that sends its request too slowly or takes nothing or asks nothing is left") {
  app::WebLimits limits;
  limits.request = milliseconds(300), limits.idle = milliseconds(600), limits.stall = milliseconds(900);
  const Running server(limits);
  const auto start = std::chrono::steady_clock::now();
  Client idle(server.port()), slow(server.port()), deaf(server.port());
  deaf.say(server.request("/long"));
  std::thread drip([&] {
    for (const char c : server.request("/a")) {
      if (!slow.say(std::string(1, c))) return;
      std::this_thread::sleep_for(milliseconds(100));
    }
  });
  CHECK(slow.is_closed());
  CHECK(seconds_since(start) < 3 * patience);
  drip.join();
  CHECK(idle.is_closed());
  const double idle_for = seconds_since(start);
  CHECK(idle_for > 0.5);
  CHECK(idle_for < 8 * patience);
  std::this_thread::sleep_for(milliseconds(1500 * patience));
  CHECK(deaf.hear().body.size() < 64 << 20);
}

TEST_CASE("apps: where all places are taken the client that is idle for longest goes and none that is answered") {
  app::WebLimits limits;
  limits.connections = 4;
  const Running server(limits);
  Client busy(server.port());
  busy.say(server.request("/long"));
  Client first(server.port());
  first.say(server.request("/a"));
  CHECK(first.hear().body == "answer");
  std::vector<std::unique_ptr<Client>> more;
  for (int i = 0; i < 6; ++i) {
    more.push_back(std::make_unique<Client>(server.port()));
    more.back()->say(server.request("/a"));
    CHECK(more.back()->hear().body == "answer");
  }
  CHECK(first.is_closed());
  more.back()->say(server.request("/a"));
  CHECK(more.back()->hear().body == "answer");
  CHECK(busy.hear().body.size() == 64 << 20);
}

TEST_CASE("apps: where all places answer the next client waits for one") {
  app::WebLimits limits;
  limits.connections = 2;
  const Running server(limits);
  Client one(server.port()), two(server.port());
  for (Client* c : {&one, &two}) c->say(server.request("/long"));
  std::this_thread::sleep_for(milliseconds(300));
  Client three(server.port());
  three.say(server.request("/a"));
  CHECK(one.hear().body.size() == 64 << 20);
  CHECK(three.hear().body == "answer");
  CHECK(two.hear().body.size() == 64 << 20);
}

TEST_CASE("apps: a request is the same however it is cut and any change of a byte is a request or refused") {
  const std::string good =
      "GET /path?query HTTP/1.1\r\nHost: localhost:8080\r\nRange: bytes=0-5\r\nConnection: Upgrade,close\r\n\r\n";
  for (std::size_t n = 0; n < good.size(); ++n) CHECK(app::head_size(good.substr(0, n)) == 0);
  CHECK(app::head_size(good + "GET /") == good.size());
  const app::HttpRequest request = app::parse_request(good);
  CHECK(request.refused == 0);
  CHECK(request.path == "/path");
  CHECK(request.host == "localhost:8080");
  CHECK(request.range == "bytes=0-5");
  CHECK(!request.keeps);
  for (std::size_t at = 0; at < good.size(); ++at)
    for (int byte = 0; byte < 256; ++byte) {
      std::string text = good;
      text[at] = static_cast<char>(byte);
      const std::size_t size = app::head_size(text);
      CHECK(size <= text.size());
      const app::HttpRequest changed = app::parse_request(std::string_view(text).substr(0, size));
      if (changed.refused == 0) CHECK(changed.path[0] == '/');
      else CHECK(!changed.keeps);
    }
  for (std::uint64_t i = 0; i < scaled(20'000, 1000); ++i) {
    const std::string text = random_bytes(mix(i) % 100, i);
    (void)app::parse_request(text);
    const std::uint64_t size = mix(i + 1) % 1000;
    if (const auto range = app::parse_range(text, size)) {
      CHECK(range->size > 0);
      CHECK(range->begin + range->size <= size);
    }
  }
}

TEST_CASE("apps: every range within every small size is what its digits say") {
  for (std::uint64_t size = 0; size < 8; ++size) {
    for (std::uint64_t a = 0; a < 10; ++a) {
      for (std::uint64_t b = 0; b < 10; ++b) {
        const auto part = app::parse_range("bytes=" + std::to_string(a) + "-" + std::to_string(b), size);
        REQUIRE(part.has_value() == (a <= b && a < size));
        if (!part) continue;
        CHECK(part->begin == a);
        CHECK(part->size == std::min(b + 1, size) - a);
      }
      const auto tail = app::parse_range("bytes=-" + std::to_string(a), size);
      REQUIRE(tail.has_value() == (a > 0 && size > 0));
      if (tail) CHECK(tail->begin + tail->size == size);
    }
  }
}
