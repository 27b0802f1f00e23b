// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/suggest.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

#include "mapping/text.hpp"

namespace megaconv::cli {
namespace {

using Words = std::vector<std::string>;

// Letters to insert, remove or replace to make one word of the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

// ", did you mean --threads?" for a word that is at most two letters away.
std::string suggestion(const std::string& word, const Words& known) {
  const std::string* nearest = nullptr;
  std::size_t least = 3;
  for (const std::string& candidate : known) {
    const std::size_t found = distance(word, candidate);
    if (found < least && found < candidate.size()) {
      least = found;
      nearest = &candidate;
    }
  }
  return nearest == nullptr ? "" : ", did you mean " + *nearest + '?';
}

Words verbs_of(const CLI::App& app) {
  Words names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(verb->get_name());
  }
  return names;
}

Words options_of(const CLI::App& app) {
  Words names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

bool takes_words(const CLI::App& app) {
  const auto options = app.get_options();
  return std::any_of(options.begin(), options.end(),
                     [](const CLI::Option* option) { return option->get_positional(); });
}

bool contains(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string joined(const Words& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  }
  return text;
}

}  // namespace

std::optional<std::string> unknown_word(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* at = &app;
  std::string path;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") break;
    const Words verbs = verbs_of(*at);
    if (word.starts_with("--")) {
      const std::string name = word.substr(0, word.find('='));
      const Words options = options_of(*at);
      if (contains(options, name)) continue;
      return (path.empty() ? "megaconv" : path) + " has no option " + excerpt(name) +
             suggestion(name, options);
    }
    if (contains(verbs, word)) {
      at = at->get_subcommand(word);
      path += (path.empty() ? "" : " ") + word;
    } else if (!verbs.empty() && !takes_words(*at)) {
      Words meant = verbs, options = options_of(*at);
      meant.insert(meant.end(), options.begin(), options.end());
      return excerpt(word) + ", must be " + joined(verbs) + suggestion(word, meant);
    }
  }
  return std::nullopt;
}

}  // namespace megaconv::cli
