// narrow explore over real sockets: what it serves, to whom, and what neither clients nor files can do to it.
#include <sys/stat.h>
#include <utime.h>

#include "tensor/watched_folder.hpp"
#include "web_client.hpp"

using namespace test;

namespace {

const std::string some_token = "0123456789abcdef0123456789abcdef";

std::string unescaped(std::string text) {
  for (const auto& [entity, sign] :
       {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}})
    for (std::size_t at = 0; (at = text.find(entity, at)) != std::string::npos; at += 1)
      text.replace(at, std::string(entity).size(), sign);
  return text;
}

Json files_of(const std::string& page) {
  const std::string tag = "<meta name=\"narrow-files\" content=\"";
  const std::size_t begin = page.find(tag) + tag.size();
  return Json::parse(unescaped(page.substr(begin, page.find('"', begin) - begin)));
}

bool is_well(const Explorer& explorer) { return explorer.get().status == 200; }

}  // namespace

TEST_CASE("apps: explore prints one address and serves the page there until Ctrl-C") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Explorer explorer({"--no-open"});
    REQUIRE(explorer.port() > 0);
    CHECK(explorer.path().size() == some_token.size() + 2);
    for (const char* name : {"", "index.html", "?a=b"}) {
      const HttpAnswer page = explorer.get(name);
      CHECK(page.status == 200);
      CHECK(page.body == explorer_page);
      CHECK(page.field("Content-Type") == "text/html; charset=utf-8");
      CHECK(page.field("Cache-Control") == "no-store");
      CHECK(page.field("X-Content-Type-Options") == "nosniff");
      CHECK(page.field("Content-Security-Policy") == "frame-ancestors 'none'");
    }
    const HttpAnswer wasm = explorer.get("narrow.wasm");
    CHECK(wasm.status == 200);
    CHECK(wasm.body.size() == 8);
    CHECK(wasm.field("Content-Type") == "application/wasm");
    const HttpAnswer head = explorer.say(explorer.request(explorer.path(), "", "HEAD"));
    CHECK(head.status == 200);
    CHECK(head.field("Content-Length") == std::to_string(std::string(explorer_page).size()));
    const Ran ran = explorer.end(signal);
    CHECK(ran.status == 0);
    CHECK(ran.out == "");
    CHECK(ran.err == "");
  }
}

TEST_CASE("apps: explore answers nobody who does not know the path") {
  const Explorer explorer({given_file, "--no-open"});
  const std::string token = explorer.path().substr(1, some_token.size());
  CHECK(token != Explorer({"--no-open"}).path().substr(1, some_token.size()));
  for (const std::string& path :
       {std::string("/"), std::string("/index.html"), std::string("/files/0"), "/" + some_token + "/", "/" + token,
        "/" + token + "x/", "//" + token + "/", "/" + token.substr(1) + "/", "/" + token + "/files/1",
        "/" + token + "/files/", "/" + token + "/files/00", "/" + token + "/files/../files/0",
        "/" + token + "/../../../../etc/passwd", "/" + token + "/%2e%2e/etc/passwd", "/" + token + "//etc/passwd",
        "/" + token + "/index.html/", std::string("/etc/passwd"), std::string("/favicon.ico"),
        "/" + std::string(20000, 'a')}) {
    CAPTURE(path);
    const HttpAnswer answer = explorer.say(explorer.request(path));
    CHECK(answer.status == 404);
    CHECK(!contains(answer.body, token));
  }
}

TEST_CASE("apps: explore answers under its own names alone") {
  const Explorer explorer({"--no-open"});
  const std::string port = ":" + std::to_string(explorer.port());
  const auto ask = [&](const std::string& fields) {
    return explorer.say("GET " + explorer.path() + " HTTP/1.1\r\n" + fields + "\r\n").status;
  };
  for (const std::string name : {"127.0.0.1", "localhost"}) CHECK(ask("Host: " + name + port + "\r\n") == 200);
  CHECK(ask("hOST:127.0.0.1" + port + " \r\n") == 200);
  for (const std::string& name :
       {"evil.example" + port, std::string("127.0.0.1"), std::string("localhost"), std::string("127.0.0.1:1"),
        "127.0.0.1.nip.io" + port, "localhost" + port + "0", "[::1]" + port, "0.0.0.0" + port, "127.0.0.2" + port,
        std::string(), "a@127.0.0.1" + port})
    CHECK_MESSAGE(ask("Host: " + name + "\r\n") == 421, name);
  CHECK(ask("") == 400);
  CHECK(ask("Host: 127.0.0.1" + port + "\r\nHost: 127.0.0.1" + port + "\r\n") == 400);
  CHECK(ask("Host: 127.0.0.1" + port + "\r\nHost: evil.example\r\n") == 400);
}

TEST_CASE("apps: explore gives any part of a file") {
  const Folder folder;
  const std::string content = random_bytes(1'000'003, 7), path = folder.write("x.npy", content);
  const Explorer explorer({path, folder.write("empty.npy", ""), "--no-open"});
  const HttpAnswer all = explorer.get("files/0");
  CHECK(all.status == 200);
  CHECK(all.body == content);
  CHECK(all.field("Accept-Ranges") == "bytes");
  CHECK(all.field("Content-Type") == "application/octet-stream");
  const auto size = content.size();
  const auto part = [&](const std::string& range, std::size_t begin, std::size_t count) {
    CAPTURE(range);
    const HttpAnswer answer = explorer.get("files/0", "Range: " + range + "\r\n");
    CHECK(answer.status == 206);
    CHECK(answer.body == content.substr(begin, count));
    CHECK(answer.field("Content-Range") ==
          "bytes " + std::to_string(begin) + "-" + std::to_string(begin + count - 1) + "/" + std::to_string(size));
  };
  part("bytes=0-0", 0, 1);
  part("bytes=0-", 0, size);
  part("bytes=1000002-", size - 1, 1);
  part("bytes=1000000-99999999999999999999999", 1'000'000, 3);
  part("bytes=-1", size - 1, 1);
  part("bytes=-99999999999999999999999", 0, size);
  part("Bytes= 5-6", 5, 2);
  for (std::uint64_t i = 0; i < scaled(50, 10); ++i) {
    const std::size_t a = mix(i) % size, b = a + mix(i + 1000) % (size - a);
    part("bytes=" + std::to_string(a) + "-" + std::to_string(b), a, b - a + 1);
  }
  for (const std::string range : {"bytes=1000003-", "bytes=9999999999-", "bytes=-0", "bytes=2-1", "bytes=", "bytes",
                                  "bytes=-", "bytes=a-b", "bytes=0-1,3-4", "bytes=0x0-1", "bytes=+0-1", "bytes=0--1",
                                  "bytes=1", "bytes=99999999999999999999-99999999999999999999"}) {
    CAPTURE(range);
    const HttpAnswer answer = explorer.get("files/0", "Range: " + range + "\r\n");
    CHECK(answer.status == 416);
    CHECK(answer.field("Content-Range") == "bytes */1000003");
  }
  CHECK(explorer.get("files/0", "Range: lines=0-1\r\n").status == 200);
  CHECK(explorer.get("files/0", "Range: bytes=0-1\r\nIf-Range: \"x\"\r\n").status == 200);
  CHECK(explorer.get("files/0", "Range: bytes=0-1\r\nRange: bytes=0-1\r\n").status == 400);
  const HttpAnswer head = explorer.say(explorer.request(explorer.path() + "files/0", "Range: bytes=0-1\r\n", "HEAD"));
  CHECK(head.status == 200);
  CHECK(head.field("Content-Length") == "1000003");
  CHECK(explorer.get("files/1").body == "");
  CHECK(explorer.get("files/1", "Range: bytes=0-\r\n").status == 416);
  CHECK(explorer.get("", "Range: bytes=0-14\r\n").body == "<!doctype html>");
}

TEST_CASE("apps: explore tells the page its files whatever they are called") {
  const Folder folder;
  const std::vector<std::string> names = {"plain.npy",
                                          "\"><script>alert(1)<!--.npy",
                                          "' onload='x.npy",
                                          "a&quot;b&amp;.npy",
                                          "[].npy",
                                          "\\u0022\\.npy",
                                          "\xE2\x80\xAEgpj.npy",
                                          "\xff\xfe.npy",
                                          "new\nline\t\x01\x7f.npy",
                                          "-->.npy",
                                          "\xC3\xA4 \xF0\x9F\x98\x80.npy",
                                          "=1+1.npy"};
  std::vector<std::string> words;
  for (const std::string& name : names) words.push_back(folder.write(name, name));
  for (const char* sub : {"a", "b"}) {
    std::filesystem::create_directory(folder / sub);
    words.push_back(folder.write(std::string(sub) + "/same.npy", sub));
  }
  words.push_back(words[0]);                             // given twice, served once
  words.push_back(folder.path() + "/a/../" + names[0]);  // the same
  words.push_back("--no-open");
  const Explorer explorer(words);
  const HttpAnswer page = explorer.get();
  REQUIRE(page.status == 200);
  for (const char c : page.body) CHECK((c == '\n' || (c >= ' ' && c <= '~')));
  const Json files = files_of(page.body);
  REQUIRE(files.size() == names.size() + 2);
  std::set<std::string> seen;
  for (std::size_t i = 0; i < files.size(); ++i) {
    CAPTURE(files[i].dump());
    CHECK(seen.insert(files[i]["name"].get<std::string>()).second);
    CHECK(files[i]["url"] == explorer.path() + "files/" + std::to_string(i));
    const std::string content = i < names.size() ? names[i] : i == names.size() ? "a" : "b";
    CHECK(files[i]["size"] == content.size());
    CHECK(explorer.say(explorer.request(files[i]["url"])).body == content);
  }
  for (const std::size_t i : {0, 1, 2, 3, 4, 5, 9, 10, 11}) CHECK(files[i]["name"] == names[i]);
  CHECK(files[7]["name"] == "\\xFF\\xFE.npy");
  CHECK(files[12]["name"] == "a/same.npy");
  CHECK(files[13]["name"] == "b/same.npy");
  // Nothing else of the page has changed.
  std::string expected = explorer_page;
  expected.replace(expected.find("'none'\">"), 8, "'self'\">");
  std::string found = page.body;
  const std::size_t begin = found.find("content=\"", found.find("narrow-files")) + 9;
  found.replace(begin, found.find('"', begin) - begin, "[]");
  CHECK(found == expected);
}

TEST_CASE("apps: explore takes folders of tensors and of watched runs") {
  const Folder folder, run;
  for (const char* name :
       {"b.safetensors", "a.npz", "model.safetensors.index.json", "secret.txt", ".hidden.npy", "config.json"})
    folder.write(name, name);
  std::filesystem::create_directory(folder / "sub.npy");
  write_run(run, {{0, "gradient", "w", {1, 2}}}, "");
  run.write("loss.jsonl.gz", "x");
  run.write("notes.txt", "x");
  Explorer explorer({folder.path() + "/", run.path(), "--no-open", "--json"});
  std::string text = explorer.line();
  const Ran ran = explorer.end(SIGINT);
  const Json answer = Json::parse(text + ran.out);
  CHECK(ran.status == 0);
  CHECK(answer["address"].get<std::string>().rfind("http://127.0.0.1:", 0) == 0);
  const std::string base = std::filesystem::path(folder.path()).filename().string() + "/",
                    run_base = std::filesystem::path(run.path()).filename().string() + "/";
  std::vector<std::string> names;
  for (const Json& file : answer["files"]) names.push_back(file["name"]);
  CHECK(names == std::vector<std::string>{base + "a.npz", base + "b.safetensors", base + "model.safetensors.index.json",
                                          run_base + "loss.jsonl.gz", run_base + "run.json",
                                          run_base + "tensors.jsonl"});
}

TEST_CASE("apps: explore refuses requests that are none") {
  const Explorer explorer({"--no-open"});
  const std::string host = "Host: " + explorer.host() + "\r\n", path = explorer.path();
  const struct {
    std::string text;
    int status;
  } cases[] = {
      {"GET " + path + " HTTP/1.0\r\n" + host + "\r\n", 505},
      {"GET " + path + " HTTP/2.0\r\n" + host + "\r\n", 505},
      {"GET " + path + " HTTP/1.1x\r\n" + host + "\r\n", 400},
      {"GET " + path + "\r\n" + host + "\r\n", 400},
      {"GET  " + path + " HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET " + path + "  HTTP/1.1\r\n" + host + "\r\n", 400},
      {" GET " + path + " HTTP/1.1\r\n" + host + "\r\n", 400},
      {"G(T " + path + " HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET " + path + "# HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET " + path + "\xC3\xA4 HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET http://" + explorer.host() + path + " HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET * HTTP/1.1\r\n" + host + "\r\n", 400},
      {"CONNECT " + explorer.host() + " HTTP/1.1\r\n" + host + "\r\n", 400},
      {"get " + path + " HTTP/1.1\r\n" + host + "\r\n", 405},
      {"POST " + path + " HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc", 405},
      {"OPTIONS " + path + " HTTP/1.1\r\n" + host + "\r\n", 405},
      {"DELETE " + path + " HTTP/1.1\r\n" + host + "\r\n", 405},
      {"TRACE " + path + " HTTP/1.1\r\n" + host + "\r\n", 405},
      {"GET " + path + " HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc", 400},
      {"GET " + path + " HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"GET " + path + " HTTP/1.1\r\n" + host + "Content-Length: 0\r\nContent-Length: 5\r\n\r\n", 400},
      {"GET " + path + " HTTP/1.1\r\n" + host + "No colon\r\n\r\n", 400},
      {"GET " + path + " HTTP/1.1\r\n" + host + "Blank : x\r\n\r\n", 400},
      {"GET " + path + " HTTP/1.1\r\n" + host + ": x\r\n\r\n", 400},
      {"GET " + path + " HTTP/1.1\r\n" + host + "A: b\r\n folded\r\n\r\n", 400},
      {"GET " + path + " HTTP/1.1\r\n " + host + "\r\n", 400},
      {"GET " + path + " HTTP/1.1\r\n" + host + "A: b\nC: d\r\n\r\n", 400},
      {"GET " + path + " HTTP/1.1\r\n" + host + "A: b\rC: d\r\n\r\n", 400},
      {"GET " + path + " HTTP/1.1\r\n" + host + "A: \x01\r\n\r\n", 400},
      {"GET " + path + " HTTP/1.1\r\nA: " + std::string(1, '\0') + "b\r\n", 400},
      {"GET " + path + " HTTP/1.1\r\n" + host + "A: " + std::string(40000, 'a') + "\r\n\r\n", 431},
      {std::string(40000, 'G'), 431},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), 400},  // what a browser says to https://
      {"\r\n\r\n", 400},
  };
  for (const auto& c : cases) {
    CAPTURE(c.text.substr(0, 200));
    Client client(explorer.port());
    REQUIRE(client.is_connected());
    client.say(c.text);
    const HttpAnswer answer = client.hear();
    CHECK(answer.status == c.status);
    CHECK(answer.field("Connection") == "close");
    CHECK(client.is_closed());
    if (answer.status == 405) CHECK(answer.field("Allow") == "GET, HEAD");
  }
  CHECK(is_well(explorer));
}

TEST_CASE("apps: explore outlives garbage and clients that leave") {
  const Folder folder;
  const Explorer explorer({folder.write("x.npy", std::string(8 << 20, 'x')), "--no-open"});
  const std::string good = explorer.request(explorer.path() + "files/0");
  for (std::uint64_t i = 0; i < scaled(200, 50); ++i) {
    Client client(explorer.port());
    std::string text = i % 3 == 0 ? random_bytes(mix(i) % 3000, i) : good + good;
    if (i % 3 == 1)
      for (int k = 0; k < 3; ++k)
        text[mix(i * 7 + static_cast<std::uint64_t>(k)) % text.size()] = static_cast<char>(mix(i + 31));
    if (i % 3 == 2) text.resize(mix(i) % text.size());
    client.say(text);
    if (i % 2 == 0) {  // gone, by a reset, in the middle of an answer
      const linger at_once{1, 0};
      setsockopt(client.file(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
  }
  CHECK(is_well(explorer));
}

TEST_CASE("apps: explore answers requests that follow one another on a connection") {
  const Folder folder;
  const std::string content = random_bytes(700'000, 5);
  const Explorer explorer({folder.write("x.npy", content), "--no-open"});
  Client client(explorer.port());
  const std::string page = explorer.request(explorer.path()), file = explorer.request(explorer.path() + "files/0");
  for (int i = 0; i < 3; ++i) {
    client.say(page);
    CHECK(client.hear().status == 200);
  }
  client.say(page + file + explorer.request("/none") + explorer.request(explorer.path() + "files/0", "", "HEAD") +
             file + page.substr(0, 10));
  CHECK(client.hear().status == 200);
  CHECK(client.hear().body == content);
  CHECK(client.hear().status == 404);
  CHECK(client.hear(true).field("Content-Length") == "700000");
  CHECK(client.hear().body == content);
  for (const char c : page.substr(10)) client.say(std::string(1, c));  // a byte at a time
  CHECK(client.hear().status == 200);
  client.say(explorer.request(explorer.path(), "Connection: keep-alive, Close\r\n"));
  CHECK(client.hear().field("Connection") == "close");
  CHECK(client.is_closed());
  Client short_one(explorer.port());  // sends its request and closes that half
  short_one.say(file);
  short_one.say_no_more();
  CHECK(short_one.hear().body == content);
}

TEST_CASE("apps: explore answers while hundreds of clients are idle or slow") {
  const Folder folder;
  const Explorer explorer({folder.write("x.npy", std::string(32 << 20, 'x')), "--no-open"});
  std::vector<std::unique_ptr<Client>> idle;
  const std::string request = explorer.request(explorer.path() + "files/0");
  for (int i = 0; i < 20; ++i) {  // that take nothing of a long answer
    idle.push_back(std::make_unique<Client>(explorer.port()));
    idle.back()->say(request);
  }
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 300; ++i) {
    idle.push_back(std::make_unique<Client>(explorer.port()));
    if (i % 2 == 0) idle.back()->say(request.substr(0, 30));
    if (i % 10 == 0) CHECK(is_well(explorer));
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5 * patience));
  CHECK(idle[0]->hear().body.size() == 32 << 20);  // those were not ended for the others
}

TEST_CASE("apps: explore goes on when it cannot open one more file") {
  Explorer explorer({"--no-open"}, {"/bin/sh", "-c", "ulimit -n 16; exec \"$@\"", "sh"});
  REQUIRE(explorer.port() > 0);
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 100; ++i) {
    idle.push_back(std::make_unique<Client>(explorer.port()));
    idle.back()->say("GET ");
    if (i % 20 == 19) CHECK(is_well(explorer));
  }
  CHECK(explorer.end(SIGINT).status == 0);
}

TEST_CASE("apps: explore closes the connection where a file changes under it") {
  const Folder folder;
  const std::string content = std::string(32 << 20, 'x');
  const std::string path = folder.write("x.npy", content), replaced = folder.write("y.npy", "before"),
                    touched = folder.write("z.npy", "before");
  Explorer explorer({path, replaced, touched, "--no-open"});
  Client client(explorer.port());
  client.say(explorer.request(explorer.path() + "files/0"));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // as much as fits is on its way
  std::filesystem::resize_file(path, 1000);
  const HttpAnswer cut = client.hear();
  CHECK(cut.status == 200);
  CHECK(cut.body.size() < content.size());
  CHECK(content.rfind(cut.body, 0) == 0);
  CHECK(explorer.get("files/0").status == 410);
  CHECK(explorer.get("files/0", "Range: bytes=0-9\r\n").status == 410);
  // Another file in its place is another file.
  std::filesystem::rename(folder.write("new.npy", "behind"), replaced);
  CHECK(explorer.get("files/1").body == "before");
  std::filesystem::remove(replaced);
  CHECK(explorer.get("files/1").body == "before");
  folder.write("z.npy", "behind");
  const utimbuf later{2'000'000'000, 2'000'000'000};  // a file system may count in seconds
  utime(touched.c_str(), &later);
  CHECK(explorer.get("files/2").status == 410);
  CHECK(explorer.end(SIGINT).status == 0);
}

TEST_CASE("apps: explore serves what was there of a log that is still written") {
  const Folder run;
  write_run(run, {{0, "gradient", "w", {1, 2}}}, "");
  const std::string before = read_file(run / "tensors.jsonl");
  const Explorer explorer({run.path(), "--no-open"});
  std::ofstream(run / "tensors.jsonl", std::ios::app) << before;
  CHECK(files_of(explorer.get().body)[1]["size"] == before.size());
  CHECK(explorer.get("files/1").body == before);
  std::filesystem::resize_file(run / "tensors.jsonl", 3);
  CHECK(explorer.get("files/1").status == 410);
}

TEST_CASE("apps: explore gives the browser an address that leads to the page once and no token") {
  const Folder folder;
  const std::string opener =
      folder.write("xdg-open", "#!/bin/sh\nprintf '%s' \"$1\" >\"$0.said.new\"\nmv \"$0.said.new\" \"$0.said\"\n");
  std::filesystem::permissions(opener, std::filesystem::perms::owner_all);
  Explorer explorer({}, {}, {{"PATH", folder.path() + ":/usr/bin:/bin"}, {"DISPLAY", ":77"}});
  for (int i = 0; i < 500 && !std::filesystem::exists(opener + ".said"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10 * patience));
  const std::string address = read_file(opener + ".said"), start = "http://" + explorer.host();
  REQUIRE(address.rfind(start + "/", 0) == 0);
  CHECK(!contains(address, explorer.path().substr(1, some_token.size())));
  const std::string path = address.substr(start.size());
  const HttpAnswer first = explorer.say(explorer.request(path));
  CHECK(first.status == 303);
  CHECK(first.field("Location") == explorer.path());
  CHECK(explorer.say(explorer.request(path)).status == 404);
  CHECK(is_well(explorer));
  CHECK(explorer.end(SIGTERM).status == 0);
  // Without a display, and where it is not wanted, nothing is started.
  std::filesystem::create_directory(folder / "page");
  folder.write("page/index.html", explorer_page);
  std::filesystem::remove(opener + ".said");
  for (const auto& [flag, display] : {std::pair{"--no-open", ":77"}, {"--json", ""}}) {
    RunOptions options;
    options.environment = {
        {"PATH", folder.path()}, {"DISPLAY", display}, {"WAYLAND_DISPLAY", ""}, {"NARROW_EXPLORER", folder / "page"}};
    const Ran ran = run({"explore", "--seconds", "0", flag}, options);
    CHECK(ran.status == 0);
    CHECK(!std::filesystem::exists(opener + ".said"));
  }
}

TEST_CASE("apps: a program of another user does not get the address from the command line") {
  if (geteuid() != 0) {
    MESSAGE("skipped: needs root, to be two users");
    return;
  }
  const Folder folder;
  const std::string opener =
      folder.write("xdg-open", "#!/bin/sh\nprintf '%s' \"$1\" >\"$0.said.new\"\nmv \"$0.said.new\" \"$0.said\"\n");
  std::filesystem::permissions(opener, std::filesystem::perms::owner_all);
  const Explorer explorer({}, {}, {{"PATH", folder.path() + ":/usr/bin:/bin"}, {"DISPLAY", ":77"}});
  for (int i = 0; i < 500 && !std::filesystem::exists(opener + ".said"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10 * patience));
  const std::string address = read_file(opener + ".said"), path = address.substr(address.find('/', 7));
  for (const bool other : {true, false}) {
    if (other) REQUIRE(seteuid(65534) == 0);
    Client client(explorer.port());  // a socket is that of whoever made it
    if (other) REQUIRE(seteuid(0) == 0);
    client.say(explorer.request(path));
    CHECK(client.hear().status == (other ? 404 : 303));
  }
}

TEST_CASE("apps: explore refuses what it cannot serve") {
  const Folder folder;
  const std::string page = folder / "page";
  std::filesystem::create_directory(page);
  const auto refused = [&](const std::vector<std::string>& arguments, const std::vector<std::string>& words) {
    std::vector<std::string> all = {"explore", "--no-open", "--seconds", "0"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Ran ran = run(all, with_environment("NARROW_EXPLORER", page));
    CAPTURE(ran.err);
    CHECK(ran.status == 2);
    CHECK(ran.out == "");
    CHECK(ran.err.rfind("narrow: ", 0) == 0);
    CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
    for (const std::string& word : words) CHECK_MESSAGE(contains(ran.err, word), word);
  };
  refused({}, {"index.html", page, "--target explorer", "clang-19", "NARROW_EXPLORER"});
  folder.write("page/index.html", "<html>");
  refused({given_file}, {"not one of this version"});
  folder.write("page/index.html", explorer_page);
  refused({folder / "none.npy"}, {"none.npy", "no such file"});
  refused({given_file, ""}, {"a file without a name"});
  refused({folder.path()}, {"a folder without .safetensors"});
  refused({"/dev/null"}, {"/dev/null", "a pipe or a device"});
  REQUIRE(mkfifo((folder / "pipe.npy").c_str(), 0600) == 0);
  refused({folder / "pipe.npy"}, {"a pipe or a device"});
  refused({std::string(given_file) + "/x"}, {"no such file"});
  for (const std::string port : {"0", "65536", "-1", "http", ""}) refused({"--port", port}, {"--port", "65535"});
  for (const std::string seconds : {"-1", "soon"}) refused({"--seconds", seconds}, {"--seconds"});
  const Explorer other({"--no-open"});
  refused({"--port", std::to_string(other.port())}, {"port " + std::to_string(other.port()), "in use"});
  CHECK(is_well(other));
}

TEST_CASE("apps: explore takes the port that is asked for as soon as it was left") {
  int port = 0;
  {
    Explorer first({"--no-open"});
    port = first.port();
    CHECK(is_well(first));
    CHECK(first.end(SIGINT).status == 0);
  }
  Explorer second({"--no-open", "--port", std::to_string(port)});
  CHECK(second.port() == port);
  CHECK(is_well(second));
  CHECK(second.end(SIGINT).status == 0);
}

TEST_CASE("apps: explore ends where its address cannot be printed") {
  const Folder folder;
  folder.write("index.html", explorer_page);
  RunOptions options = with_environment("NARROW_EXPLORER", folder.path());
  options.output = RunOptions::Output::closed;
  Ran ran = run({"explore", "--no-open"}, options);
  CHECK(ran.status == 2);
  CHECK(contains(ran.err, "narrow: standard output: "));
  CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
  if (access("/dev/full", W_OK) != 0) return;
  options.output_file = "/dev/full";
  ran = run({"explore", "--no-open"}, options);
  CHECK(ran.status == 2);
  CHECK(contains(ran.err, "narrow: standard output: No space left"));
}
