package funcs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/template"

	"github.com/BurntSushi/toml"
	"github.com/Masterminds/sprig/v3"
	"go.yaml.in/yaml/v3"

	"github.com/osm-gitops/osm-gitops/pkg/phrase"
)

// AllowedSprig are the functions of https://masterminds.github.io/sprig/ that templates can
// call, each a pure function of its arguments. Any other name of sprig is a parse error;
// ForbiddenSprig has the reason.
var AllowedSprig = strings.Fields(`
	abbrev abbrevboth trunc trim upper lower title untitle substr repeat trimall trimAll trimSuffix trimPrefix
	nospace initials swapcase snakecase camelcase kebabcase wrap wrapWith contains hasPrefix hasSuffix
	quote squote cat indent nindent replace plural toString atoi int64 int float64 toDecimal
	sha1sum sha256sum sha512sum adler32sum
	seq until untilStep split splitList splitn toStrings join sortAlpha
	add1 add sub div mod mul add1f addf subf divf mulf biggest max min maxf minf ceil floor round
	default empty coalesce all any compact mustCompact ternary fail hello
	toJson toPrettyJson toRawJson mustFromJson mustToJson mustToPrettyJson mustToRawJson fromJson
	deepCopy mustDeepCopy deepEqual typeOf typeIs typeIsLike kindOf kindIs
	base dir clean ext isAbs osBase osClean osDir osExt osIsAbs
	b64enc b64dec b32enc b32dec
	tuple list dict get set unset hasKey pluck keys values pick omit
	merge mergeOverwrite mustMerge mustMergeOverwrite
	append push mustAppend mustPush prepend mustPrepend first mustFirst rest mustRest last mustLast
	initial mustInitial reverse mustReverse uniq mustUniq without mustWithout has mustHas slice mustSlice
	concat dig chunk mustChunk
	semver semverCompare
	regexMatch mustRegexMatch regexFindAll mustRegexFindAll regexFind mustRegexFind
	regexReplaceAll mustRegexReplaceAll regexReplaceAllLiteral mustRegexReplaceAllLiteral
	regexSplit mustRegexSplit regexQuoteMeta
	urlParse urlJoin duration durationRound
`)

// ForbiddenSprig are sprig's other functions, with the reason why each is impure.
var ForbiddenSprig = func() map[string]string {
	reasons := map[string]string{
		"reads the controller's environment":                  "env expandenv",
		"asks the network":                                    "getHostByName",
		"depends on when it runs or on the local time zone":   "now ago date date_in_zone date_modify dateInZone dateModify htmlDate htmlDateInZone must_date_modify mustDateModify mustToDate toDate unixEpoch",
		"gives another result each time":                      "randAlphaNum randAlpha randAscii randNumeric randBytes randInt shuffle uuidv4 bcrypt htpasswd encryptAES",
		"makes keys or passwords, which belong into a Secret": "genPrivateKey derivePassword buildCustomCert genCA genCAWithKey genSelfSignedCert genSelfSignedCertWithKey genSignedCert genSignedCertWithKey decryptAES",
	}
	out := map[string]string{}
	for reason, names := range reasons {
		for _, name := range strings.Fields(names) {
			out[name] = reason
		}
	}
	return out
}()

// Map is the function map of every template: the allowed functions of sprig, and those that
// operating-system-manager adds. Templates call them through a Set, which limits them.
var Map = func() template.FuncMap {
	all := sprig.TxtFuncMap()
	out := template.FuncMap{}
	for _, name := range AllowedSprig {
		out[name] = all[name]
	}
	out["until"] = until
	out["untilStep"] = untilStep
	out["seq"] = seq
	out["print"] = fmt.Sprint
	out["println"] = fmt.Sprintln
	out["printf"] = PrintfWithoutAddresses
	out["html"] = template.HTMLEscaper
	out["js"] = template.JSEscaper
	out["urlquery"] = template.URLQueryEscaper
	for _, name := range strings.Fields("regexFindAll mustRegexFindAll regexSplit mustRegexSplit") {
		out[name] = limitedPieces(all[name])
	}
	out["keys"] = keys
	out["values"] = sortedValues
	out["toYaml"] = toYAML
	out["fromYaml"] = func(s string) map[string]any { return decodeMap(s, unmarshalYAML) }
	out["fromYamlArray"] = func(s string) []any { return decodeList(s, unmarshalYAML) }
	out["toJson"] = toJSON
	out["fromJson"] = func(s string) map[string]any { return decodeMap(s, json.Unmarshal) }
	out["fromJsonArray"] = func(s string) []any { return decodeList(s, json.Unmarshal) }
	out["toToml"] = toTOML
	out["fromToml"] = func(s string) map[string]any { return decodeMap(s, toml.Unmarshal) }
	return out
}()

// seeing are the functions that print their arguments, or store them for a function that does.
// A pointer of the data prints as its address there, which differs from run to run: these
// functions get the value instead.
var seeing = func() map[string]bool {
	out := map[string]bool{}
	for _, name := range strings.Fields(`toString quote squote cat toStrings join sortAlpha list tuple dict set
		append push mustAppend mustPush prepend mustPrepend print println printf`) {
		out[name] = true
	}
	return out
}()

// keys is sprig's, sorted.
func keys(dicts ...map[string]any) []string {
	out := []string{}
	for _, d := range dicts {
		out = append(out, slices.Sorted(maps.Keys(d))...)
	}
	return out
}

// sortedValues is sprig's values, in the order of the keys.
func sortedValues(dict map[string]any) []any {
	out := []any{}
	for _, k := range slices.Sorted(maps.Keys(dict)) {
		out = append(out, dict[k])
	}
	return out
}

// limitedPieces limits sprig's function that splits a text by a regular expression to one piece
// more than a list can have.
func limitedPieces(fn any) func(pattern, s string, n int) ([]string, error) {
	return func(pattern, s string, n int) (pieces []string, err error) {
		if n < 0 || n > maxItems {
			n = maxItems + 1
		}
		switch fn := fn.(type) {
		case func(string, string, int) []string:
			pieces = fn(pattern, s, n)
		case func(string, string, int) ([]string, error):
			pieces, err = fn(pattern, s, n)
		}
		if len(pieces) > maxItems {
			return nil, errTooMany
		}
		return pieces, err
	}
}

// PrintfWithoutAddresses is that of text/template without %p, which prints an address.
func PrintfWithoutAddresses(format string, args ...any) (string, error) {
	verb := false
	for _, r := range format {
		switch {
		case r == '%':
			verb = !verb
		case verb && r == 'p':
			return "", errors.New("the verb %p prints an address, which differs from run to run")
		case verb && !strings.ContainsRune("+-# 0123456789.*[]", r):
			verb = false
		}
	}
	return fmt.Sprintf(format, args...), nil
}

// dereferenceAll returns a copy of a list with pointers replaced by the values that they point to.
func dereferenceAll(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		out[i] = dereference(arg)
	}
	return out
}

// dereference dereferences pointers, also in lists. A nil pointer becomes "<nil>", the text that a
// template prints for it.
func dereference(v any) any {
	switch t := v.(type) {
	case nil, string, error:
		return nilSafeStringer(v)
	case fmt.Stringer:
		seen := nilSafeStringer(v)
		if s, ok := seen.(fmt.Stringer); ok && s.String() == NoValue {
			return NoValue // the whole data: the text that it prints as, also with a verb that does not call String
		}
		return seen
	case []any:
		return dereferenceAll(t)
	}
	rv := reflect.ValueOf(v)
	for rv.Kind() == reflect.Pointer {
		if rv.IsNil() {
			return "<nil>"
		}
		rv = rv.Elem()
	}
	return rv.Interface()
}

// nilSafeStringer returns "<nil>" for a nil pointer, whose String method would panic, and other
// values unchanged.
func nilSafeStringer(v any) any {
	if rv := reflect.ValueOf(v); rv.IsValid() && rv.Kind() == reflect.Pointer && rv.IsNil() {
		return "<nil>"
	}
	return v
}

// dereferenceArguments replaces pointers by the values that they point to in the arguments of type
// any, and in lists of them.
func dereferenceArguments(args []reflect.Value) {
	anyType, listType := reflect.TypeFor[any](), reflect.TypeFor[[]any]()
	for i, arg := range args {
		if (arg.Type() != anyType && arg.Type() != listType) || arg.IsNil() {
			continue
		}
		seen := reflect.New(arg.Type()).Elem()
		seen.Set(reflect.ValueOf(dereference(arg.Interface())))
		args[i] = seen
	}
}

func toYAML(v any) string {
	b, err := yaml.Marshal(v)
	if err != nil {
		return "" // as in operating-system-manager
	}
	return strings.TrimSuffix(string(b), "\n")
}

func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "" // as in operating-system-manager
	}
	return string(b)
}

func toTOML(v any) string {
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(v); err != nil {
		return err.Error() // as in operating-system-manager
	}
	return b.String()
}

func unmarshalYAML(b []byte, into any) error { return yaml.Unmarshal(b, into) }

func decodeMap(s string, unmarshal func([]byte, any) error) map[string]any {
	m := map[string]any{}
	if err := unmarshal([]byte(s), &m); err != nil {
		m = map[string]any{"Error": err.Error()}
	}
	return m
}

func decodeList(s string, unmarshal func([]byte, any) error) []any {
	list := []any{}
	if err := unmarshal([]byte(s), &list); err != nil {
		list = []any{err.Error()}
	}
	return list
}

// ExplainUndefinedFunction rewrites the parser's message about an unknown function. It returns
// false for other messages.
func ExplainUndefinedFunction(message string) (string, bool) {
	rest, ok := strings.CutPrefix(message, `function "`)
	if !ok {
		return "", false
	}
	name, _, ok := strings.Cut(rest, `" not defined`)
	if !ok {
		return "", false
	}
	if reason, ok := ForbiddenSprig[name]; ok {
		return fmt.Sprintf("the function %q is not available: it %s", name, reason), true
	}
	known := slices.Concat(slices.Sorted(maps.Keys(Map)), Builtins)
	return fmt.Sprintf("there is no function %q%s", name, phrase.DidYouMean(name, known)), true
}

// Builtins are text/template's own functions.
var Builtins = strings.Fields("and or not eq ne lt le gt ge len index slice call html js print printf println urlquery")

// NoValue is what text/template prints for a key that a map does not have.
const NoValue = "<no value>"
