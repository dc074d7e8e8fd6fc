package render

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// In every template that passes the check, two sets of credentials give outputs that differ
// only at the places that print a credential (security.md 34).
func FuzzCredentials(f *testing.F) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // nothing secret
		b := make([]byte, 120)
		for i := range b {
			b[i] = byte(r.UintN(256))
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		w := templateWriter{choices: b}
		text := w.statements(3) + "{{ define `t` }}" + w.statements(1) + "{{ end }}"
		stage, problems := stageOf(text)
		if len(problems) > 0 {
			return
		}
		var outputs, sums [2]string
		for i, set := range []string{"A", "BBBB"} {
			d := fuzzCredentials(set)
			out, shape, problems := executeStage(stage, d)
			if len(problems) > 0 {
				return
			}
			outputs[i] = strings.ReplaceAll(out, "~"+set, "~")
			sums[i] = fmt.Sprint(shape)
		}
		if outputs[0] != outputs[1] || sums[0] != sums[1] {
			t.Errorf("%s\n%q\n%q, the same shape: %t", text, outputs[0], outputs[1], sums[0] == sums[1])
		}
	})
}

// fuzzCredentials is data with credentials that begin with "~" and the name of a set.
func fuzzCredentials(set string) *data {
	mark := func(name string) string { return "~" + set + name }
	proxy, none := "http://"+mark("proxy")+"@p/", "a,"+mark("no")+"@b"
	d := &data{
		KubeVersion: "v1.36.2", PauseImage: "pause", Token: mark("token"), CloudConfig: "c = " + mark("cloud") + "\n", HTTPProxy: &proxy, NoProxy: &none,
		DownloadMirrors:        map[string]string{"cni": "https://" + mark("mirror") + "@m/", "x": "https://y/"},
		ContainerRuntimeConfig: "version = 3\n[a]\ns = '" + mark("one") + "'\nt = 'plain'\nl = ['" + mark("two") + "', 'b']\n[a.c]\nu = '" + mark("three") + "'\n",
		settings:               &Settings{},
	}
	d.RhelConfig.RHELActivationKey = mark("key")
	return d
}

// templateWriter writes a template by choices.
type templateWriter struct {
	choices []byte
	vars    int
}

func (w *templateWriter) pick(options ...string) string {
	if len(w.choices) == 0 {
		return options[0]
	}
	n := int(w.choices[0]) % len(options)
	w.choices = w.choices[1:]
	return options[n]
}

func (w *templateWriter) statements(depth int) string {
	var b strings.Builder
	vars := w.vars
	for range 1 + len(w.pick("", "a", "aa", "aaa")) {
		b.WriteString(w.statement(depth))
	}
	w.vars = vars
	return b.String()
}

func (w *templateWriter) statement(depth int) string {
	kind := w.pick("print", "print", "declare", "assign", "set", "if", "with", "range", "template")
	if depth == 0 && (kind == "if" || kind == "with" || kind == "range") {
		kind = "print"
	}
	e := w.expression(3)
	switch kind {
	case "declare":
		if w.vars < 8 {
			w.vars++
			return fmt.Sprintf("{{ $v%d := %s }}", w.vars-1, e)
		}
	case "assign":
		if w.vars > 0 {
			return fmt.Sprintf("{{ $v%d = %s }}", len(w.pick("", "a", "aa", "aaa"))%w.vars, e)
		}
	case "set":
		return fmt.Sprintf("{{ $_ := set %s `%s` %s }}", e, w.pick("s", "k", "n"), w.expression(2))
	case "if", "with":
		return fmt.Sprintf("{{ %s %s }}%s{{ else }}%s{{ end }}", kind, e, w.statements(depth-1), w.statements(depth-1))
	case "range":
		return fmt.Sprintf("{{ range %s }}%s%s{{ end }}", e, w.statements(depth-1), w.pick("", "{{ if "+w.expression(1)+" }}{{ break }}{{ end }}"))
	case "template":
		return "{{ template `t` " + e + " }}"
	}
	return "{{ " + e + " }}" + w.pick("", "a")
}

func (w *templateWriter) expression(depth int) string {
	if depth == 0 {
		return w.pick(".", "$", ".Token", "$.Token", "$.PauseImage", "$.CloudConfig", "$.HTTPProxy", "$.NoProxy", "$.DownloadMirrors", ".cni", "$.RhelConfig.RHELActivationKey", "(dict)", "`k`", "``", "1",
			"(fromToml $.ContainerRuntimeConfig)", "$.KubeVersion", w.chosenVariable(), w.chosenVariable()+".a", w.chosenVariable()+".k", w.chosenVariable()+".a.c", ".s", ".k")
	}
	a, b := w.expression(depth-1), w.expression(max(depth-2, 0))
	form := w.pick("%s", "%s", "(dict `k` %s `n` %s)", "(list %s %s)", "(or %s %s)", "(and %s %s)", "(default %s %s)", "(ternary %s %s true)", "(ternary `a` `b` (not %s))", "(merge %s %s)", "(mergeOverwrite %s %s)",
		"(get %s `a`)", "(index %s `k`)", "(first %s)", "(omit %s `s`)", "(pick %s `a` `k`)", "(print %s %s)", "(printf `%%s-%%v` %s %s)", "(quote %s)", "(trim %s)", "(toToml %s)", "(len %s)", "(eq %s ``)", "(eq %s %s)",
		"(contains `@` %s)", "(trimSuffix `/` %s)", "(hasPrefix %s %s)", "(keys %s)", "(hasKey %s `k`)", "(not %s)", "(coalesce %s %s)", "(unset %s `k`)", "(toJson %s)", "(join `,` %s)", "(list %s | first)")
	if strings.Count(strings.ReplaceAll(form, "%%", ""), "%s") == 2 {
		return fmt.Sprintf(form, a, b)
	}
	return fmt.Sprintf(form, a)
}

// chosenVariable is one that is declared, the data where none is.
func (w *templateWriter) chosenVariable() string {
	if w.vars == 0 {
		return "$"
	}
	return fmt.Sprintf("$v%d", len(w.pick("", "a", "aa", "aaa"))%w.vars)
}
