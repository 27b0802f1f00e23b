// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/completion.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <utility>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/plan.hpp"

namespace megaconv::cli {
namespace {

struct Word {
  std::string name, text;
  bool takes_value = false;
};

/// The command itself, or one of its verbs, "megaconv map show".
struct Place {
  const CLI::App* app;
  std::string path;
  std::vector<Word> verbs, options;
};

/// In one line.
std::string flat(std::string text) {
  for (char& ch : text) ch = ch == '\n' ? ' ' : ch;
  return text;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

void list_places(const CLI::App& app, const std::string& path, std::vector<Place>& places) {
  Place place{&app, path, {}, {}};
  const auto verbs = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* verb : verbs) {
    place.verbs.push_back({verb->get_name(), flat(verb->get_description())});
  }
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      place.options.push_back(
          {"--" + name, flat(option->get_description()), !option->get_type_name().empty()});
    }
  }
  places.push_back(std::move(place));
  for (const CLI::App* verb : verbs) list_places(*verb, path + ' ' + verb->get_name(), places);
}

std::vector<Place> places_of(const CLI::App& app) {
  std::vector<Place> places;
  list_places(app, app.get_name(), places);
  return places;
}

std::string names_of(const std::vector<Word>& words) {
  std::string text;
  for (const Word& word : words) text += (text.empty() ? "" : " ") + word.name;
  return text;
}

/// As one word of a shell.
std::string quoted(std::string text, const char* quote = "'\\''") {
  replace_all(text, "'", quote);
  return '\'' + text + '\'';
}

std::string bash(const std::vector<Place>& places) {
  std::string text = R"(# Completion of megaconv in bash; made by `megaconv completion bash`.
_megaconv() {
  local current=${COMP_WORDS[COMP_CWORD]} place=megaconv i
  local -A verbs options
)";
  for (const Place& place : places) {
    if (!place.verbs.empty()) {
      text += fmt::format("  verbs[{}]='{}'\n", quoted(place.path), names_of(place.verbs));
    }
    text += fmt::format("  options[{}]='{}'\n", quoted(place.path), names_of(place.options));
  }
  return text + R"(  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ " ${verbs[$place]-} " == *" ${COMP_WORDS[i]} "* ]] && place+=" ${COMP_WORDS[i]}"
  done
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "${options[$place]}" -- "$current"))
  else
    COMPREPLY=($(compgen -W "${verbs[$place]-}" -- "$current"))
  fi
}
complete -o default -F _megaconv megaconv
)";
}

std::string zsh(const std::vector<Place>& places) {
  std::string text = R"(#compdef megaconv
# Completion of megaconv in zsh; made by `megaconv completion zsh`.
_megaconv() {
  local place=megaconv word
  local -a verbs options
  local -A verbs_of
)";
  for (const Place& place : places) {
    if (place.verbs.empty()) continue;
    text += fmt::format("  verbs_of[{}]='{}'\n", place.path, names_of(place.verbs));
  }
  text += R"(  for word in ${words[2,CURRENT-1]}; do
    [[ " ${verbs_of[$place]-} " == *" $word "* ]] && place+=" $word"
  done
  case $place in
)";
  const auto list = [&](const char* name, const std::vector<Word>& words) {
    text += fmt::format(" {}=(", name);
    for (Word word : words) {
      replace_all(word.text, ":", "\\:");
      text += ' ' + quoted(word.name + ':' + word.text);
    }
    text += ')';
  };
  for (const Place& place : places) {
    text += "    " + quoted(place.path) + ')';
    list("verbs", place.verbs);
    list("options", place.options);
    text += " ;;\n";
  }
  return text + R"(  esac
  if [[ $PREFIX == -* ]]; then
    _describe option options
  elif (( $#verbs )); then
    _describe verb verbs
  else
    _files
  fi
}
compdef _megaconv megaconv
)";
}

std::string fish(const std::vector<Place>& places) {
  std::string paths, rules;
  for (const Place& place : places) {
    const std::string condition =
        fmt::format("complete -c megaconv -n \"__megaconv_at {}\"", quoted(place.path, "\\'"));
    for (const Word& verb : place.verbs) {
      paths += ' ' + quoted(place.path + ' ' + verb.name, "\\'");
      rules += fmt::format("{} -f -a {} -d {}\n", condition, verb.name, quoted(verb.text, "\\'"));
    }
    for (const Word& option : place.options) {
      rules += fmt::format("{} -l {} -d {}{}\n", condition, option.name.substr(2),
                           quoted(option.text, "\\'"), option.takes_value ? " -r" : "");
    }
  }
  return fmt::format(R"(# Completion of megaconv in fish; made by `megaconv completion fish`.
function __megaconv_at
  set -l at megaconv
  for word in (commandline -opc)[2..]
    if contains -- "$at $word"{}
      set at "$at $word"
    end
  end
  test "$at" = "$argv[1]"
end
)",
                     paths) +
         rules;
}

/// For roff: no line may begin with a point or an apostrophe, and backslashes are commands.
std::string roff(std::string text) {
  replace_all(text, "\\", "\\e");
  replace_all(text, "-", "\\-");
  replace_all(text, "\n.", "\n\\&.");
  replace_all(text, "\n'", "\n\\&'");
  return !text.empty() && (text.front() == '.' || text.front() == '\'') ? "\\&" + text : text;
}

std::string roff_options(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    std::string names;
    for (const std::string& name : option->get_snames()) names += "-" + name + ", ";
    for (const std::string& name : option->get_lnames()) names += "--" + name + ", ";
    if (names.empty()) names = option->get_name(true) + ", ";
    names.erase(names.size() - 2);
    const std::string type = option->get_type_name();
    const std::string value =
        type.empty() ? "" : " \\fI" + roff(type.substr(0, type.find(':'))) + "\\fR";
    text += ".TP\n\\fB" + roff(names) + "\\fR" + value + '\n' +
            roff(flat(option->get_description())) + '\n';
  }
  return text;
}

std::string roff_footer(const CLI::App& app) {
  return app.get_footer().empty() ? "" : ".PP\n.nf\n" + roff(app.get_footer()) + "\n.fi\n";
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  const std::vector<Place> places = places_of(app);
  if (shell == "bash") return bash(places);
  if (shell == "zsh") return zsh(places);
  if (shell == "fish") return fish(places);
  throw Error(Status::invalid_argument,
              "completion of \"" + shell + "\", must be bash, zsh or fish");
}

std::string manual_page(const CLI::App& app) {
  std::string text = fmt::format(
      ".TH MEGACONV 1 \"\" \"megaconv {}\" \"User Commands\"\n.SH NAME\nmegaconv \\- {}\n"
      ".SH SYNOPSIS\n.B megaconv\n\\fIVERB\\fR [\\fIPROBLEM\\fR] [\\fIOPTIONS\\fR]\n"
      ".SH DESCRIPTION\n",
      version(), roff(app.get_description()));
  text += roff_footer(app) + roff_options(app) + ".SH VERBS\n";
  for (const Place& place : places_of(app)) {
    if (place.app == &app) continue;
    text += ".SS " + roff(place.path) + '\n' + roff(place.app->get_description()) + '\n' +
            roff_options(*place.app) + roff_footer(*place.app);
  }
  return text;
}

}  // namespace megaconv::cli
