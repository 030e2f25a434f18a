// The answers to many questions as one page: what was found first, then each question with its picture and numbers.
#pragma once

#include <string>
#include <vector>

#include "narrow/report/table.hpp"

namespace narrow::report {

struct PagePicture {
  std::string title, subtitle;
  std::string svg;  // an <svg> element that takes its colours from the page; empty: no_picture says why
};

struct PageTable {
  Table table;
  std::string file;  // of the CSV beside the page
};

// What a reader comes with, and what the numbers say to it.
struct Answer {
  std::string question, text;
};

struct PageSection {
  std::string name, question;
  std::string finding;        // one sentence
  std::string data;           // whose numbers these are: a file, a recording, made ones
  std::string evidence = {};  // what they stand on
  std::vector<Answer> answers = {};  // they lead the page
  std::string failure;        // not empty: the experiment failed, and why; then there is nothing else
  std::vector<std::string> notes;
  std::vector<PagePicture> pictures;
  std::vector<PageTable> tables;
  std::string command;  // makes it again
};

struct Page {
  std::string title, introduction;
  std::string made_by;  // version, effort, command; at the foot
  std::vector<PageSection> sections;
};

// One file: style and pictures inside, nothing is fetched, no script. Light and dark by the reader's setting.
std::string to_html(const Page& page);

// The same without pictures, for terminals, mails and pull requests: pictures are links to files.
std::string to_markdown(const PageSection& section, const std::vector<std::string>& picture_files);

}  // namespace narrow::report
