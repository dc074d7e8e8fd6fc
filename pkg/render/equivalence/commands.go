package equivalence

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// plainWord matches a word that a shell reads alike with quotes and without.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:,@%+-]+$`)

// reserved are the words that a shell does not read as a command at the start of one, unless
// they are quoted:
// https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_04 and those
// that Bash adds.
var reserved = []string{
	"if", "then", "else", "elif", "fi", "for", "in", "do", "done", "while", "until", "case", "esac", "select", "function", "time", "coproc",
}

// IsPlainWord reports whether a shell runs a command of one word alike with quotes and without.
func IsPlainWord(word string) bool {
	return plainWord.MatchString(word) && !slices.Contains(reserved, word)
}

// CommandLine returns a line of shell that runs a command of several words, as cloud-init does
// with a list in runcmd or bootcmd. It is empty if words is empty.
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

// retyped matches a scalar without quotes that PyYAML, the parser of cloud-init, can decode to
// a type other than text: resolver.py in https://github.com/yaml/pyyaml.
var retyped = regexp.MustCompile(`(?i)^(yes|no|on|off|true|false|null|~|<<|=|` +
	`[-+]?(0b[01_]+|0x[0-9a-f_]+|[0-9][0-9_]*(:[0-5]?[0-9])*(\.[0-9_]*)?(e[-+]?[0-9]+)?|\.[0-9][0-9_]*(e[-+]?[0-9]+)?|\.inf)|\.nan|` +
	`[0-9]{4}-[0-9][0-9]?-[0-9].*)?$`)

// decimal matches a number that prints in the form in which it is written.
var decimal = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

// IsText reports whether cloud-init passes an unquoted scalar of YAML on as this text, if it is
// a word of a command.
func IsText(scalar string) bool { return decimal.MatchString(scalar) || !retyped.MatchString(scalar) }

// shellLine returns an item of runcmd or bootcmd as a line of shell. An item that is not a
// command, such as a mapping, is returned unchanged: it equals none of ours, which are texts.
func shellLine(item any) any {
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
