package equivalence

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// plainWord is a word that a shell takes for the same in quotes and without.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:,@%+-]+$`)

// reserved are the words of a shell that are no command where one is expected, unless they are
// quoted: https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_04
// and those that Bash adds.
var reserved = []string{
	"if", "then", "else", "elif", "fi", "for", "in", "do", "done", "while", "until", "case", "esac", "select", "function", "time", "coproc",
}

// IsPlainWord reports whether a shell takes a command of one word for the same in quotes and
// without.
func IsPlainWord(word string) bool {
	return plainWord.MatchString(word) && !slices.Contains(reserved, word)
}

// CommandLine is a line of shell that runs a command of several words, as cloud-init runs an
// item of runcmd or bootcmd that is a list. It is empty where there is no word.
func CommandLine(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		plain := plainWord.MatchString(word)
		if i == 0 {
			plain = IsPlainWord(word)
		}
		if quoted[i] = word; !plain {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// retyped is a scalar without quotes of which PyYAML, with which cloud-init reads a document, may
// make something else than a text: resolver.py in https://github.com/yaml/pyyaml.
var retyped = regexp.MustCompile(`(?i)^(yes|no|on|off|true|false|null|~|<<|=|` +
	`[-+]?(0b[01_]+|0x[0-9a-f_]+|[0-9][0-9_]*(:[0-5]?[0-9])*(\.[0-9_]*)?(e[-+]?[0-9]+)?|\.[0-9][0-9_]*(e[-+]?[0-9]+)?|\.inf)|\.nan|` +
	`[0-9]{4}-[0-9][0-9]?-[0-9].*)?$`)

// decimal is a number that prints as it is written.
var decimal = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

// IsText reports whether a scalar of YAML without quotes is this text to cloud-init, where it is
// a word of a command.
func IsText(scalar string) bool { return decimal.MatchString(scalar) || !retyped.MatchString(scalar) }

// command is an item of runcmd or bootcmd as a line of shell. One that is none, such as a mapping,
// stays as it is: nothing of ours equals it, since ours are texts.
func command(item any) any {
	switch item := item.(type) {
	case map[string]any:
		return item
	case []any:
		words := make([]string, len(item))
		for i, word := range item {
			number, isNumber := word.(int)
			text, isText := word.(string)
			switch {
			case isNumber:
				words[i] = strconv.Itoa(number)
			case isText && IsText(text):
				words[i] = text
			default: // whether "yes" had quotes cannot be seen any more
				return item
			}
		}
		return CommandLine(words)
	}
	return fmt.Sprint(item)
}
