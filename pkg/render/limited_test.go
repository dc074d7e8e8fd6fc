package render

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// Templates that would not end, or take all memory, are stopped (security.md 17, 18, 37).
func TestTemplatesAreStopped(t *testing.T) {
	deep := func(n int, inner string) string {
		return strings.Repeat("{{ if true }}", n) + inner + strings.Repeat("{{ end }}", n)
	}
	const runaway, tooBig, tooDeep, tooMany, tooMuch, tooMade = "do not end, or take too long: stopped after 200000000 units of work", "a value of more than 1048576 bytes",
		"more than 100 levels deep, or contains itself", "a list of more than 10000 items", "take more than 200000000 units of work together", "make more than 8388608 bytes together"
	tests := map[string]struct{ text, want string }{
		// What repeats, 18.
		"a long range over a number":        {`{{ range 1000000000 }}{{ end }}`, runaway},
		"nested ranges":                     {"\n{{ range until 9999 }}\n{{ range 999999 }}{{ end }}{{ end }}", runaway},
		"with the dot bound anew":           {`{{ with "x" }}{{ range until 9999 }}{{ with . }}{{ range 999999 }}{{ $y := . }}{{ end }}{{ end }}{{ end }}{{ end }}`, runaway},
		"in a definition without data":      {`{{ define "x" }}{{ range 1000000000 }}{{ end }}{{ end }}{{ template "x" }}`, runaway},
		"a range that goes on":              {`{{ range 1000000000 }}{{ continue }}{{ end }}`, runaway},
		"templates that double":             {`{{ define "a" }}{{ end }}` + doubling(30), runaway},
		"long bodies count more":            {`{{ $x := 0 }}{{ range 90000 }}` + strings.Repeat(`{{ $x = . }}`, 100) + `{{ end }}`, runaway},
		"large values count more":           {`{{ $a := repeat 1000000 "x" }}{{ range 65000 }}{{ $_ := eq $a "x" }}{{ end }}`, runaway},
		"a template that invokes itself":    {`{{ define "x" }}{{ template "x" . }}{{ end }}{{ template "x" . }}`, "invoke one another more than 1000 deep"},
		"two that invoke each other":        {`{{ define "x" }}{{ template "y" . }}{{ end }}{{ define "y" }}{{ template "x" . }}{{ end }}{{ template "x" . }}`, "more than 1000 deep"},
		"recursion in deep conditions":      {`{{ define "x" }}` + deep(99, `{{ template "x" . }}`) + `{{ end }}{{ template "x" . }}`, "more than 1000 deep"},
		"a file that invokes itself":        {`{{ template "/x" }}`, "more than 1000 deep"},
		"conditions too deep":               {deep(101, "x"), "nested more than 100 deep"},
		"conditions far too deep":           {deep(40_000, "x"), "nested more than 100 deep"},
		"else-if too deep":                  {`{{ if false }}` + strings.Repeat(`{{ else if false }}`, 101) + `{{ end }}`, "nested more than 100 deep"},
		"parentheses too deep":              {`{{ ` + strings.Repeat("(", 20_000) + `1` + strings.Repeat(")", 20_000) + ` }}`, "max expression depth exceeded"},
		"functions without end":             {`{{ range 9999 }}{{ $x := repeat 10000 "x" | upper | lower | trim }}{{ end }}`, tooMade},
		"a range of ten thousand is enough": {`{{ range until 10000 }}{{ end }}`, ""},

		// What grows, 17.
		"repeat":                     {`{{ $x := repeat 200000000 "x" }}`, `error calling repeat: ` + tooBig},
		"repeat, running over":       {`{{ $x := repeat 9223372036854775807 "xxxxxxxxx" }}`, tooBig},
		"until":                      {`{{ $x := until 30000000 }}`, "error calling until: " + tooMany},
		"until, downwards":           {`{{ $x := until -30000000 }}`, tooMany},
		"untilStep":                  {`{{ $x := untilStep 0 30000000 2 }}`, tooMany},
		"seq":                        {`{{ $x := seq 30000000 }}`, "error calling seq: " + tooMany},
		"seq with steps":             {`{{ $x := seq 0 2 30000000 }}`, tooMany},
		"indent":                     {`{{ $x := indent 2000000 "x" }}`, tooBig},
		"indent of many lines":       {`{{ $x := repeat 1000 "\n" | indent 2000 }}`, tooBig},
		"nindent":                    {`{{ $x := nindent 2000000 "x" }}`, tooBig},
		"join":                       {`{{ $x := join (repeat 1000 "x") (until 2000) }}`, "error calling join: " + tooBig},
		"cat, doubling":              {`{{ $x := "aa" }}{{ range until 1000 }}{{ $x = cat $x $x }}{{ end }}`, "error calling cat: " + tooBig},
		"print, doubling":            {`{{ $x := "aa" }}{{ range until 1000 }}{{ $x = print $x $x }}{{ end }}`, tooBig},
		"html":                       {`{{ $x := repeat 500000 "<" | html }}`, "error calling html: " + tooBig},
		"printf with a width":        {`{{ $x := printf "%1000000d%1000000d" 1 2 }}`, "error calling printf: " + tooBig},
		"printf with a precision":    {`{{ $x := printf "%.999999f%.999999f" 1.0 2.0 }}`, tooBig},
		"printf with a width of *":   {`{{ $x := printf "%*d" 1000000 1 }}`, "a width or precision of * is not available"},
		"printf of one thing often":  {`{{ $a := repeat 10000 "x" }}{{ $x := printf "` + strings.Repeat("%[1]s", 200) + `" $a }}`, tooBig},
		"replace":                    {`{{ $x := replace "" (repeat 2000 "y") (repeat 2000 "x") }}`, "error calling replace: " + tooBig},
		"wrapWith":                   {`{{ $x := wrapWith 1 (repeat 2000 "y") (repeat 2000 "x") }}`, tooBig},
		"split":                      {`{{ $x := split "" (repeat 20000 "x") }}`, "error calling split: " + tooMany},
		"splitList":                  {`{{ $x := splitList "," (repeat 20000 ",") }}`, tooMany},
		"splitn":                     {`{{ $x := splitn "," 20000 (repeat 20000 ",") }}`, tooMany},
		"regexReplaceAll":            {`{{ $x := regexReplaceAll "x" (repeat 100000 "x") "$0$0$0$0$0$0$0$0$0$0$0$0" }}`, "error calling regexReplaceAll: " + tooBig},
		"regexReplaceAll, far":       {`{{ $x := regexReplaceAll "" (repeat 100000 "x") (repeat 100000 "y") }}`, tooBig},
		"a long regular expression":  {`{{ $x := regexMatch (repeat 1001 "x") "x" }}`, "the regular expression has more than 1000 bytes"},
		"a slow regular expression":  {`{{ $x := regexMatch "(x?){1000}$" (repeat 1000000 "x") }}`, tooMuch},
		"one that looks ahead":       {`{{ $x := regexReplaceAll "[^x]*x|y" (repeat 100000 "y") "z" }}`, tooMuch},
		"one that does not":          {`{{ $x := regexReplaceAll "[^x]+|(y|z)*" (repeat 100000 "y") "z" }}`, ""},
		"it may for a while":         {`{{ $x := regexFindAll "[^x]*x|y" (repeat 2000 "y") -1 }}`, ""},
		"a list, growing":            {`{{ $x := list 1 }}{{ range until 1000 }}{{ $x = concat $x $x }}{{ end }}`, "error calling concat: " + tooBig},
		"a list of large texts":      {`{{ $x := list }}{{ range until 1000 }}{{ $x = append $x (repeat 100000 "x") }}{{ end }}`, "error calling append: " + tooBig},
		"lists in lists":             {`{{ $x := list "a" }}{{ range until 30 }}{{ $x = list $x $x }}{{ end }}{{ $x }}`, "error calling list: " + tooBig},
		"a deep list":                {`{{ $x := list }}{{ range until 1000 }}{{ $x = list $x }}{{ end }}`, tooDeep},
		"a map that contains itself": {`{{ $d := dict }}{{ $_ := set $d "x" $d }}{{ $d }}`, "error calling set: a value that is " + tooDeep},
		"by another one":             {`{{ $d := dict }}{{ $e := dict "d" $d }}{{ $_ := set $d "e" $e }}{{ $d }}`, tooDeep},
		"by merging":                 {`{{ $d := dict "a" (dict) }}{{ $_ := set $d.a "d" $d }}{{ toYaml $d }}`, tooDeep},
		"a map changed later":        {`{{ $d := dict }}{{ $l := list $d $d $d }}{{ $_ := set $d "x" (repeat 900000 "x") }}{{ $l }}`, "error calling printed: " + tooBig},
		"many entries":               {`{{ $d := dict }}{{ range until 10000 }}{{ $_ := set $d (toString .) (repeat 50000 "x") }}{{ end }}`, "error calling set: " + tooBig},
		"uniq":                       {`{{ $x := until 9999 | uniq }}`, tooMuch},
		"trimAll":                    {`{{ $x := trimAll (repeat 300000 "é") (repeat 300000 "é") }}`, tooMuch},
		"fromYaml":                   {`{{ $x := fromYaml (repeat 70000 " ") }}`, "error calling fromYaml: the text has more than 65536 bytes"},
		"fromYaml with aliases":      {"{{ $x := fromYaml \"a: &a [" + strings.Repeat("x,", 1000) + "]\\nb: &b [" + strings.Repeat("*a,", 100) + "]\\nc: [" + strings.Repeat("*b,", 100) + "]\" }}{{ $x.Error }}", "the aliases of the text stand for more than 10000 values"},
		"fromYaml, deep":             {`{{ $x := fromYamlArray (repeat 9000 "[") | len }}{{ $y := fromYamlArray (print (repeat 9000 "[") (repeat 9000 "]")) }}`, tooDeep},
		"fromToml, deep":             {`{{ $x := fromToml (print "a = " (repeat 30000 "[") (repeat 30000 "]")) }}`, tooDeep},
		"fromJson, deep":             {`{{ $x := fromJsonArray (print (repeat 9000 "[") (repeat 9000 "]")) }}`, tooDeep},
		"variables together":         {variables(300), tooMade},
		// What takes more than it seems to, 37.
		"eq of many large values":         {`{{ $a := repeat 1000000 "x" }}{{ $b := repeat 1000000 "x" }}{{ range 1000 }}{{ $_ := eq $a` + strings.Repeat(" $b", 2000) + ` }}{{ end }}`, runaway},
		"eq of texts in the template":     {`{{ range 100000 }}{{ $_ := eq "` + strings.Repeat("x", 200_000) + `" "` + strings.Repeat("x", 200_000) + `" }}{{ end }}`, runaway},
		"maps sorted for a range":         {`{{ $d := dict }}{{ range until 500 }}{{ $_ := set $d (toString .) . }}{{ end }}{{ range 900000 }}{{ range $d }}{{ break }}{{ end }}{{ end }}`, runaway},
		"many variables":                  {strings.Repeat(`{{ $x := 1 }}`, 1001), "declares more than 1000 variables"},
		"toYaml, indented":                {`{{ $x := repeat 60000 "a\n" }}{{ range 30 }}{{ $x = list $x }}{{ end }}{{ $y := toYaml $x }}`, "error calling toYaml: " + tooBig},
		"toPrettyJson, indented":          {`{{ $x := until 10000 }}{{ range 45 }}{{ $x = list $x }}{{ end }}{{ $y := toPrettyJson (list $x $x $x $x $x) }}`, "error calling toPrettyJson: " + tooBig},
		"toToml, headers":                 {`{{ $l := list }}{{ range until 100 }}{{ $l = append $l (dict) }}{{ end }}{{ $y := toToml (dict (repeat 500000 "k") $l) }}`, "error calling toToml: " + tooBig},
		"printf of a list with a width":   {`{{ $x := printf "%100000d" (until 1000) }}`, "error calling printf: " + tooBig},
		"regexFindAll of nothing":         {`{{ $x := regexFindAll "" (repeat 100000 "x") -1 }}`, "error calling regexFindAll: " + tooMany},
		"regexSplit of nothing":           {`{{ $x := regexSplit "" (repeat 100000 "x") -1 }}`, tooMany},
		"a regular expression that grows": {`{{ $x := regexMatch "` + strings.Repeat(`x{1000}`, 12) + `" "x" }}`, "the regular expression repeats too much"},
		"a long text that is repeated":    {`{{ $x := regexMatch "(` + strings.Repeat("x", 100) + `){500}" "x" }}`, "the regular expression repeats too much"},
		"one with many groups":            {`{{ $x := regexReplaceAll "` + strings.Repeat(`()`, 300) + `(x?){900}" "x" "$1" }}`, "the regular expression repeats too much"},
		"fromYaml, repeated keys":         {`{{ $x := fromYaml (repeat 10000 "a: 1\n") }}`, "repeats the keys of a mapping more than 100 times"},
		"fromYaml, a few repeated keys":   {`{{ $x := fromYaml "a: 1\na: 2\n" }}{{ if not $x.Error }}{{ fail "x" }}{{ end }}`, ""},
		"fromYaml, dashes":                {`{{ $x := fromYamlArray (repeat 30000 "- ") }}`, tooDeep},
		"fromToml, brackets without end":  {`{{ $x := fromToml (printf "a = %s" (repeat 60000 "[")) }}{{ len $x }}`, tooDeep},
		"fromToml, 131,000 of them":       {`{{ $x := fromToml (printf "a = %s" (repeat 131000 "[")) }}{{ len $x }}`, "error calling fromToml: the text has more than 65536 bytes"},
		"fromToml, behind a string":       {`{{ $x := fromToml (print "b = '''a'''''\na = " (repeat 60000 "[")) }}`, tooDeep},
		"fromToml, a long key":            {`{{ $x := fromToml (print (repeat 30000 "a.") "b = 1") }}`, tooDeep},
		"fromJson, brackets without end":  {`{{ $x := fromJson (repeat 60000 "[") }}`, tooDeep},
		"mustFromJson, in a string":       {`{{ $x := mustFromJson (print "\"" (repeat 60000 "[") "\"") }}`, ""},
		"toYaml of numbers, again":        {`{{ $x := until 10000 }}{{ range 500 }}{{ $y := toYaml $x }}{{ end }}`, tooMuch},
		"snakecase, again":                {`{{ $x := repeat 200000 "aB" }}{{ range 300 }}{{ $y := snakecase $x }}{{ end }}`, tooMuch},
		"what a file may be":              {strings.Repeat("{{ 1 }}", 200_000), "has 1400000 bytes: a file or template can have 1048576"},
		"output":                          {`{{ $x := repeat 1000 "x" }}{{ range 2000 }}{{ $x }}{{ end }}`, "the output is longer than 1048576 bytes"},
		"a message":                       {`{{ fail (repeat 1000000 "x") }}`, "bytes more)"},
		"a name":                          {`{{ template "` + strings.Repeat("x", 500_000) + `" }}`, "bytes more)"},
		"a function's name":               {`{{ ` + strings.Repeat("x", 500_000) + ` }}`, "bytes more)"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := execute(&data{}, test.text)
			runtime.ReadMemStats(&after)
			most := uint64(64) // MiB
			if strings.Contains(test.text, "regex") {
				most = 1024 // under the race detector, package regexp discards its cached machines
			}
			if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > most && test.want != tooMuch && test.want != runaway && test.want != tooMade {
				t.Errorf("%d MiB were allocated", n)
			}
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %d bytes of output, error %.300v, want %q in it", len(got), err, test.want)
			}
			if len(err.Error()) > 2*invalid.MaxMessageBytes {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
		})
	}
}

// doubling defines templates that each invoke the one before twice.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString(`{{ define "0" }}{{ end }}`)
	for i := range n {
		fmt.Fprintf(&b, `{{ define "%d" }}{{ template "%d" }}{{ template "%d" }}{{ end }}`, i+1, i, i)
	}
	fmt.Fprintf(&b, `{{ template "%d" }}`, n)
	return b.String()
}

// variables returns a template with a megabyte in each of n variables.
func variables(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{{ $x%d := repeat 1048576 "x" }}`, i)
	}
	return b.String()
}
