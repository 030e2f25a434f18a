// A web server for one person at this machine: GET and HEAD of a fixed table, on the loopback alone. No path of a
// request becomes a path of the file system; a name that another site made point here (DNS rebinding) is refused by the
// Host field. One thread: an idle or slow client costs a place in a list, and none of these is needed for long.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "narrow/base/descriptor.hpp"

namespace app {

// A file as it was when it was opened. It stays open: whoever puts another in its place does not change what is served.
class ServedFile {
 public:
  // may_grow: a log that is still written; what is there now is served. Throws narrow::Error that names the path.
  ServedFile(const std::string& path, bool may_grow);

  std::uint64_t size() const { return static_cast<std::uint64_t>(about_.st_size); }
  bool is_as_it_was() const;
  // The bytes [begin, begin + size); empty where they cannot be read, or were written over in the meantime.
  std::optional<std::string> read(std::uint64_t begin, std::size_t size) const;

 private:
  narrow::Descriptor file_;
  struct stat about_ = {};
  bool may_grow_;
};

inline constexpr const char* plain_text = "text/plain; charset=utf-8";

struct Resource {
  std::string type = plain_text;
  std::string body = {};
  std::unique_ptr<const ServedFile> file = {};  // instead of the body
  std::string location = {};  // when not empty: leads there, once, and only a program of the same user

  std::uint64_t size() const { return file ? file->size() : body.size(); }
};

struct WebLimits {
  std::chrono::milliseconds request{10'000};  // from the first byte of a request to its last
  std::chrono::milliseconds idle{120'000};    // between two requests
  std::chrono::milliseconds stall{60'000};    // while the client takes nothing of an answer
  std::chrono::milliseconds linger{2'000};    // for a client that still sends after its last answer
  std::size_t connections = 64;               // beyond these the one that is idle for longest goes
};

class WebServer {
 public:
  explicit WebServer(std::uint16_t port, WebLimits limits = {});  // 0: a free one. Throws narrow::Error
  ~WebServer();
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;

  std::uint16_t port() const { return port_; }
  void add(std::string path, Resource resource);  // before run()

  // Answers until should_stop(), which is asked several times a second. Throws narrow::Error when the system does not
  // let it go on; what one client does is no reason.
  void run(const std::function<bool()>& should_stop);

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection;

  void accept_all();
  void step(Connection& c, short events);
  void receive(Connection& c);
  void send(Connection& c);
  void answer(Connection& c);
  void respond(Connection& c, const std::string& path, bool is_head, const std::optional<std::string>& range);
  void refuse(Connection& c, int status, const std::string& more = "");
  void finish(Connection& c);
  bool is_overdue(const Connection& c) const;
  bool make_room();
  bool is_own_name(const std::string& host) const;

  WebLimits limits_;
  narrow::Descriptor listener_;
  std::uint16_t port_ = 0;
  std::map<std::string, Resource> resources_;
  std::vector<std::unique_ptr<Connection>> connections_;
  Clock::time_point now_, accept_from_;
};

}  // namespace app
