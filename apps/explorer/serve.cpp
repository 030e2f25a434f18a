#include "explorer/serve.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "explorer/http_request.hpp"
#include "explorer/peer.hpp"
#include "narrow/base/error.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/tensor/mapped_file.hpp"

namespace app {
namespace {

constexpr std::size_t piece_size = std::size_t{1} << 18;  // of an answer in memory at a time, for each client
constexpr std::chrono::milliseconds longest_wait{250};    // a signal may come just before poll() and not end it
constexpr std::chrono::milliseconds without_files{100};   // until accept() is tried again where no file can be opened

[[noreturn]] void fail_to_serve(const std::string& what) {
  throw narrow::Error("127.0.0.1: " + what + ": " + std::strerror(errno));
}

bool set_flags(int file) {
  const int flags = fcntl(file, F_GETFL);
  return flags >= 0 && fcntl(file, F_SETFL, flags | O_NONBLOCK) == 0 && fcntl(file, F_SETFD, FD_CLOEXEC) == 0;
}

bool has_more(int file) {
  pollfd one{file, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

bool is_same_time(const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

const char* reason_of(int status) {
  switch (status) {
    case 200: return "OK";
    case 206: return "Partial Content";
    case 303: return "See Other";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 410: return "Gone";
    case 416: return "Range Not Satisfiable";
    case 421: return "Misdirected Request";
    case 431: return "Request Header Fields Too Large";
    default: return "HTTP Version Not Supported";
  }
}

// Every answer: nothing is kept by the browser, taken for another type, put into a frame, read by another site, or said
// to one that a link leads to.
std::string head_of(int status, const std::string& type, std::uint64_t size, bool keeps, const std::string& more) {
  return "HTTP/1.1 " + std::to_string(status) + " " + reason_of(status) + "\r\nContent-Type: " + type +
         "\r\nContent-Length: " + std::to_string(size) +
         "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer"
         "\r\nCross-Origin-Resource-Policy: same-origin\r\nContent-Security-Policy: frame-ancestors 'none'\r\n" +
         more + (keeps ? "" : "Connection: close\r\n") + "\r\n";
}

}  // namespace

ServedFile::ServedFile(const std::string& path, bool may_grow) : may_grow_(may_grow) {
  (void)narrow::MappedFile::open(path);  // says what is wrong with it as every command does
  file_.reset(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file_.get() < 0 || fstat(file_.get(), &about_) != 0)
    throw narrow::Error(narrow::quote_path(path) + ": cannot be opened: " + std::strerror(errno));
  if (!S_ISREG(about_.st_mode)) throw narrow::Error(narrow::quote_path(path) + ": became another file");
}

bool ServedFile::is_as_it_was() const {
  struct stat about {};
  if (fstat(file_.get(), &about) != 0) return false;
  if (may_grow_) return about.st_size >= about_.st_size;
  return about.st_size == about_.st_size && is_same_time(about.st_mtim, about_.st_mtim);
}

std::optional<std::string> ServedFile::read(std::uint64_t begin, std::size_t size) const {
  std::string bytes(size, '\0');
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = pread(file_.get(), bytes.data() + done, size - done, static_cast<off_t>(begin + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return {};
    done += static_cast<std::size_t>(count);
  }
  return is_as_it_was() ? std::optional(std::move(bytes)) : std::nullopt;
}

struct WebServer::Connection {
  enum class State { asking, answering, leaving, gone };

  narrow::Descriptor socket;
  Clock::time_point since;  // when its state, or the last progress in it, began
  State state = State::asking;
  std::string in = {};                 // came and is not yet answered
  std::string out = {};                // goes out; the rest of the body comes in pieces
  std::size_t sent = 0;                // of out
  const Resource* resource = nullptr;  // whose bytes [next, next + left) are still to come
  std::uint64_t next = 0, left = 0;
  bool keeps = true;
};

WebServer::WebServer(std::uint16_t port, WebLimits limits) : limits_(limits) {
  listener_.reset(socket(AF_INET, SOCK_STREAM, 0));
  if (listener_.get() < 0 || !set_flags(listener_.get())) fail_to_serve("no socket");
  const int yes = 1;  // a port that was just left can be taken again at once
  if (setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0) fail_to_serve("no socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener_.get(), any, size) != 0 || listen(listener_.get(), 128) != 0 ||
      getsockname(listener_.get(), any, &size) != 0)
    fail_to_serve(port != 0 ? "port " + std::to_string(port) + " cannot be had" : "no port can be had");
  port_ = ntohs(address.sin_port);
}

WebServer::~WebServer() = default;

void WebServer::add(std::string path, Resource resource) { resources_[std::move(path)] = std::move(resource); }

bool WebServer::is_own_name(const std::string& host) const {
  const std::string port = ":" + std::to_string(port_);
  for (const std::string name : {"127.0.0.1", "localhost"})
    if (host == name + port || (port_ == 80 && host == name)) return true;
  return false;
}

void WebServer::run(const std::function<bool()>& should_stop) {
  std::vector<pollfd> files;
  while (!should_stop()) {
    const bool listens = now_ >= accept_from_;
    files.assign(1, pollfd{listens ? listener_.get() : -1, POLLIN, 0});
    for (const auto& c : connections_)
      files.push_back(
          {c->socket.get(), static_cast<short>(c->state == Connection::State::answering ? POLLOUT : POLLIN), 0});
    const auto wait = listens ? longest_wait : std::min(longest_wait, without_files);
    const int count = poll(files.data(), files.size(), static_cast<int>(wait.count()));
    now_ = Clock::now();
    if (count < 0 && errno != EINTR) fail_to_serve("cannot wait for requests");
    if (count < 0) continue;  // revents says nothing then
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      step(*connections_[i], files[i + 1].revents);
      if (is_overdue(*connections_[i])) connections_[i]->state = Connection::State::gone;
    }
    std::erase_if(connections_, [](const auto& c) { return c->state == Connection::State::gone; });
    if (files[0].revents != 0) accept_all();
  }
}

// True when a connection that waits for nothing of this server has gone.
bool WebServer::make_room() {
  const auto is_answering = [](const auto& c) { return c->state == Connection::State::answering; };
  const auto oldest = std::min_element(connections_.begin(), connections_.end(), [&](const auto& a, const auto& b) {
    return std::pair(is_answering(a), a->since) < std::pair(is_answering(b), b->since);
  });
  if (oldest == connections_.end() || is_answering(*oldest)) return false;
  connections_.erase(oldest);
  return true;
}

void WebServer::accept_all() {
  // As many as there are places at a time: whoever comes faster does not keep those that are here from their answers.
  for (std::size_t i = 0; i < limits_.connections; ++i) {
    if (!has_more(listener_.get())) return;  // nobody goes for a client that does not come
    if (connections_.size() >= limits_.connections && !make_room()) {
      accept_from_ = now_ + without_files;
      return;
    }
    narrow::Descriptor socket(accept(listener_.get(), nullptr, nullptr));
    if (socket.get() < 0) {
      const int reason = errno;
      if (reason == EAGAIN || reason == EWOULDBLOCK) return;
      if (reason == EBADF || reason == EINVAL || reason == ENOTSOCK || reason == EOPNOTSUPP || reason == EFAULT)
        fail_to_serve("cannot be listened on");
      if (reason == EMFILE || reason == ENFILE || reason == ENOBUFS || reason == ENOMEM) {
        if (make_room()) continue;
        accept_from_ = now_ + without_files;
        return;
      }
      continue;  // this client has gone again, or a signal came
    }
    if (!set_flags(socket.get())) continue;
    const int yes = 1;  // the end of an answer does not wait for the client to confirm its beginning
    (void)setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    connections_.push_back(std::make_unique<Connection>());
    connections_.back()->socket.reset(socket.release());
    connections_.back()->since = now_;
  }
}

bool WebServer::is_overdue(const Connection& c) const {
  const auto passed = now_ - c.since;
  switch (c.state) {
    case Connection::State::asking: return passed > (c.in.empty() ? limits_.idle : limits_.request);
    case Connection::State::answering: return passed > limits_.stall;
    case Connection::State::leaving: return passed > limits_.linger;
    case Connection::State::gone: break;
  }
  return false;
}

void WebServer::step(Connection& c, short events) {
  if (events == 0) return;
  if (c.state == Connection::State::answering) send(c);
  else receive(c);
}

void WebServer::receive(Connection& c) {
  std::array<char, 16384> bytes;
  const ssize_t count = recv(c.socket.get(), bytes.data(), bytes.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (count <= 0) {
    c.state = Connection::State::gone;
    return;
  }
  if (c.state == Connection::State::leaving) return;  // read so that the answer is not lost in a reset, and forgotten
  if (c.in.empty()) c.since = now_;
  c.in.append(bytes.data(), static_cast<std::size_t>(count));
  answer(c);
}

// Sends a piece, or what the client takes of it.
void WebServer::send(Connection& c) {
  while (c.state == Connection::State::answering) {
    if (c.sent == c.out.size()) {
      c.out.clear(), c.sent = 0;
      if (c.left == 0) {
        finish(c);
        return;
      }
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(c.left, piece_size));
      if (!c.resource->file) {
        c.out = c.resource->body.substr(static_cast<std::size_t>(c.next), size);
      } else if (std::optional<std::string> piece = c.resource->file->read(c.next, size)) {
        c.out = std::move(*piece);
      } else {  // the client sees that bytes are missing
        c.state = Connection::State::gone;
        return;
      }
      c.next += size, c.left -= size;
    }
    const ssize_t count = ::send(c.socket.get(), c.out.data() + c.sent, c.out.size() - c.sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      if (errno != EAGAIN && errno != EWOULDBLOCK) c.state = Connection::State::gone;
      return;
    }
    c.sent += static_cast<std::size_t>(count);
    c.since = now_;
    if (c.sent == c.out.size() && c.left > 0) return;  // others are served in between
  }
}

void WebServer::finish(Connection& c) {
  c.since = now_;
  if (c.keeps) {
    c.state = Connection::State::asking;
    answer(c);
    return;
  }
  c.state = shutdown(c.socket.get(), SHUT_WR) == 0 ? Connection::State::leaving : Connection::State::gone;
}

// The first request that has all come, if one has.
void WebServer::answer(Connection& c) {
  const std::size_t size = head_size(c.in);
  if (size == 0) return;
  const HttpRequest request = parse_request(std::string_view(c.in).substr(0, size));
  c.in.erase(0, size);
  c.keeps = request.keeps;
  c.state = Connection::State::answering;
  if (request.refused != 0) refuse(c, request.refused, request.refused == 405 ? "Allow: GET, HEAD\r\n" : "");
  else if (!is_own_name(request.host)) refuse(c, 421);
  else respond(c, request.path, request.is_head, request.range);
}

void WebServer::refuse(Connection& c, int status, const std::string& more) {
  c.keeps = false;
  const std::string body = std::to_string(status) + " " + reason_of(status) + "\n";
  c.out = head_of(status, plain_text, body.size(), false, more) + body;
}

void WebServer::respond(Connection& c, const std::string& path, bool is_head, const std::optional<std::string>& range) {
  const auto found = resources_.find(path);
  const auto say = [&](int status, std::string body, const std::string& more = "") {
    c.out = head_of(status, plain_text, body.size(), c.keeps, more) + (is_head ? "" : body);
  };
  if (found == resources_.end() || (!found->second.location.empty() && !is_of_this_user(c.socket.get())))
    return say(404, "Nothing is here. The address of the explorer is the one that narrow printed.\n");
  const Resource& resource = found->second;
  if (!resource.location.empty()) {
    say(303, "", "Location: " + resource.location + "\r\n");
    if (!is_head) resources_.erase(found);
    return;
  }
  if (resource.file && !resource.file->is_as_it_was())
    return say(410, "The file was changed after narrow explore had opened it; start that again.\n");
  const std::uint64_t size = resource.size();
  ByteRange part{0, size};
  int status = 200;
  std::string more = "Accept-Ranges: bytes\r\n";
  if (range && counts_bytes(*range)) {
    const std::optional<ByteRange> asked = parse_range(*range, size);
    if (!asked)
      return say(416, "The resource has " + std::to_string(size) + " bytes.\n",
                 "Content-Range: bytes */" + std::to_string(size) + "\r\n");
    part = *asked, status = 206;
    more += "Content-Range: bytes " + std::to_string(part.begin) + "-" + std::to_string(part.begin + part.size - 1) +
            "/" + std::to_string(size) + "\r\n";
  }
  c.out = head_of(status, resource.type, part.size, c.keeps, more);
  c.resource = &resource, c.next = part.begin, c.left = is_head ? 0 : part.size;
}

}  // namespace app
