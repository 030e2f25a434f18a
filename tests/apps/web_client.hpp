// A client of HTTP that says exactly what a test tells it to, and the program `narrow explore` to talk to.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <map>
#include <thread>

#include "explorer_page.hpp"
#include "narrow/base/descriptor.hpp"
#include "tensor_files.hpp"

namespace test {

constexpr std::chrono::seconds client_patience{10 * patience};

struct HttpAnswer {
  int status = 0;  // 0: the connection was closed without an answer
  std::string head, body;
  std::map<std::string, std::string> fields;

  std::string field(const std::string& name) const { return fields.contains(name) ? fields.at(name) : ""; }
};

class Client {
 public:
  explicit Client(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    const timeval limit{client_patience.count(), 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    is_connected_ = connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }

  bool is_connected() const { return is_connected_; }
  int file() const { return socket_.get(); }
  // False when the server has closed the connection.
  bool say(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t count = send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }
  void say_no_more() const { shutdown(socket_.get(), SHUT_WR); }

  HttpAnswer hear(bool is_head = false) {
    HttpAnswer answer;
    while (received_.find("\r\n\r\n") == std::string::npos)
      if (!receive()) return answer;
    const std::size_t end = received_.find("\r\n\r\n");
    answer.head = received_.substr(0, end + 2);
    received_.erase(0, end + 4);
    std::istringstream lines(answer.head);
    std::string line;
    std::getline(lines, line);
    if (line.rfind("HTTP/1.1 ", 0) == 0) answer.status = std::stoi(line.substr(9, 3));
    while (std::getline(lines, line))
      if (const std::size_t colon = line.find(": "); colon != std::string::npos)
        answer.fields[line.substr(0, colon)] = line.substr(colon + 2, line.size() - colon - 3);
    const std::size_t size = is_head ? 0 : std::stoull(answer.fields["Content-Length"]);
    while (received_.size() < size && receive()) {
    }
    answer.body = received_.substr(0, size);
    received_.erase(0, size);
    return answer;
  }
  bool is_closed() {  // by the server, with nothing more to come
    return received_.empty() && !receive() && received_.empty();
  }

 private:
  bool receive() {
    std::vector<char> bytes(1 << 16);
    const ssize_t count = recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (count > 0) received_.append(bytes.data(), static_cast<std::size_t>(count));
    return count > 0;
  }

  narrow::Descriptor socket_;
  bool is_connected_ = false;
  std::string received_;
};

// `narrow explore` as it runs, with a page of its own.
class Explorer {
 public:
  explicit Explorer(const std::vector<std::string>& arguments, std::vector<std::string> before = {},
                    std::vector<std::pair<std::string, std::string>> environment = {}) {
    std::filesystem::create_directory(page_ / "explorer");
    page_.write("explorer/index.html", explorer_page);
    page_.write("explorer/narrow.wasm", std::string("\0asm\1\0\0\0", 8));
    environment.emplace_back("NARROW_EXPLORER", page_ / "explorer");
    std::vector<std::string> words = std::move(before);
    words.insert(words.end(), {NARROW_PROGRAM, "explore"});
    words.insert(words.end(), arguments.begin(), arguments.end());
    RunOptions options;
    options.environment = std::move(environment);
    const detail::Channel out = detail::open_pipe(), err = detail::open_pipe();
    child_ = fork();
    if (child_ == 0) detail::become(words, options, out.write, err.write);
    close(out.write), close(err.write);
    out_.reset(out.read), err_.reset(err.read);
    for (char c = 0; c != '\n' && read(out_.get(), &c, 1) == 1;) line_ += c;
    if (const std::size_t at = line_.find("http://127.0.0.1:"); at == 0) {
      port_ = std::stoi(line_.substr(17));
      path_ = line_.substr(line_.find('/', 17));
      path_.pop_back();
    }
  }
  ~Explorer() {
    if (child_ > 0) end(SIGKILL);
  }
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  const std::string& line() const { return line_; }
  const std::string& path() const { return path_; }  // "/TOKEN/"
  int port() const { return port_; }
  pid_t process() const { return child_; }
  std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string request(const std::string& path, const std::string& more = "", const std::string& method = "GET") const {
    return method + " " + path + " HTTP/1.1\r\nHost: " + host() + "\r\n" + more + "\r\n";
  }
  HttpAnswer say(const std::string& text) const {
    Client client(port_);
    client.say(text);
    return client.hear(text.rfind("HEAD ", 0) == 0);
  }
  HttpAnswer get(const std::string& name = "", const std::string& more = "") const {
    return say(request(path_ + name, more));
  }

  // What else it printed, and how it ended.
  Ran end(int signal) {
    kill(child_, signal);
    Ran ran;
    if (!detail::collect(out_.get(), err_.get(), ran, client_patience)) kill(child_, SIGKILL);
    int state = 0;
    waitpid(std::exchange(child_, -1), &state, 0);
    ran.status = WIFEXITED(state) ? WEXITSTATUS(state) : 1000 + WTERMSIG(state);
    return ran;
  }

 private:
  Folder page_;
  pid_t child_ = -1;
  narrow::Descriptor out_, err_;
  std::string line_, path_;
  int port_ = 0;
};

}  // namespace test
