package taint

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"
)

// AllowedFunctions returns the functions that can have credentials, sorted by name.
func AllowedFunctions() []string { return slices.Sorted(maps.Keys(rules)) }

// rule returns the result of a function whose arguments contain at least one credential, and
// false if the function cannot have these arguments.
type rule func(args []argument) (flow, bool)

// rules are the functions that can have credentials, with the condition that makes each safe.
// No other function can have one.
var rules = func() map[string]rule {
	rules := map[string]rule{}
	add := func(names string, rule rule) {
		for _, name := range strings.Fields(names) {
			rules[name] = rule
		}
	}

	// These write all of each argument, in one form for every value.
	add("b64enc b32enc quote squote toString cat print println html js urlquery", allArgumentsRule)
	add("toYaml toJson mustToJson toPrettyJson mustToPrettyJson toRawJson mustToRawJson toToml", allArgumentsRule)
	add("printf", printfRule)
	// These write all of the last argument; the others are not credentials.
	add("indent nindent join", lastArgumentRule)
	// The same, except for blanks at both ends.
	add("trim", func(args []argument) (flow, bool) {
		f, ok := lastArgumentRule(args)
		f.maybeBlank = true
		return f, ok
	})

	// These test whether a value is set, which gives the same result for its placeholder.
	add("not empty any all", func(args []argument) (flow, bool) { return flow{}, canTestIfSet(args) })
	add("eq ne", emptyComparisonRule)
	// These return one of their arguments; which one depends on which of the others are set.
	add("and or", func(args []argument) (flow, bool) { return joinArgumentFlows(args), canTestIfSet(args[:len(args)-1]) })
	add("coalesce", func(args []argument) (flow, bool) { return joinArgumentFlows(args), canTestIfSet(args) })
	add("default", func(args []argument) (flow, bool) { return joinArgumentFlows(args), canTestIfSet(args[1:]) })
	add("ternary", func(args []argument) (flow, bool) {
		return joinArgumentFlows(args[:len(args)-1]), args[len(args)-1].flow.isPlain()
	})

	// Placeholders replace the part before the "@" of a URL: they change neither the "@" nor
	// the end of the URL.
	add("contains", func(args []argument) (flow, bool) {
		return flow{}, len(args) == 2 && isString(args[0].node, "@") && args[1].flow.tag == credentialURL
	})
	add("trimSuffix", func(args []argument) (flow, bool) {
		return args[len(args)-1].flow, len(args) == 2 && isString(args[0].node, "/") && args[1].flow.tag == credentialURL
	})

	// Keys and lengths of lists and maps are not credentials, their entries can be.
	add("list tuple", func(args []argument) (flow, bool) {
		elem := joinArgumentFlows(args)
		return newEntriesFlow(flow{from: elem.from, elem: &elem}), true
	})
	add("dict", dictRule)
	add("index", func(args []argument) (flow, bool) {
		f := args[0].flow
		for _, key := range args[1:] {
			if f.kind != flowEntries && f.kind != flowDecoded || !key.flow.isPlain() {
				return flow{}, false
			}
			f = entryAt(f, key)
		}
		return f, true
	})
	add("get", func(args []argument) (flow, bool) {
		if len(args) != 2 || !mayBeMap(args[0].flow) || !args[1].flow.isPlain() {
			return flow{}, false
		}
		return entryAt(args[0].flow, args[1]), true
	})
	add("first last mustFirst mustLast", func(args []argument) (flow, bool) {
		f := args[0].flow
		return f.anyEntry(), f.kind == flowDecoded || f.kind == flowEntries
	})
	add("len", func(args []argument) (flow, bool) { return flow{}, args[0].flow.kind == flowEntries })
	add("keys", func(args []argument) (flow, bool) {
		return flow{}, !slices.ContainsFunc(args, func(a argument) bool { return !a.flow.isPlain() && !mayBeMap(a.flow) })
	})
	add("hasKey", func(args []argument) (flow, bool) {
		return flow{}, mayBeMap(args[0].flow) && isRestPlain(args)
	})

	// The TOML that we write has the same keys with placeholders. Decoded values can be
	// combined again, unless another value is in the same map as a result.
	add("fromToml", func(args []argument) (flow, bool) {
		return flow{kind: flowDecoded, from: args[0].flow.from}, args[0].flow.tag == credentialTOML
	})
	add("omit pick", func(args []argument) (flow, bool) {
		return args[0].flow, args[0].flow.kind == flowDecoded && isRestPlain(args)
	})
	add("merge mergeOverwrite mustMerge mustMergeOverwrite", func(args []argument) (flow, bool) {
		return newDecodedFlow(args), !slices.ContainsFunc(args, func(a argument) bool { return !isUnsharedDecodedOrLiteral(a) })
	})
	add("set", func(args []argument) (flow, bool) {
		if len(args) != 3 || !args[1].flow.isPlain() {
			return flow{}, false
		}
		if args[0].flow.kind == flowEntries && args[2].flow.isPlain() {
			return args[0].flow, true
		}
		return newDecodedFlow(args), isUnsharedDecodedOrLiteral(args[0]) && isUnsharedDecodedOrLiteral(args[2])
	})
	add("unset", func(args []argument) (flow, bool) { return args[0].flow, mayBeMap(args[0].flow) && isRestPlain(args) })
	return rules
}()

// allArgumentsRule is the rule of functions that write all of each argument.
func allArgumentsRule(args []argument) (flow, bool) { return newTextFlow(flows(args)...), true }

// lastArgumentRule is the rule of functions that write all of the last argument: the others must
// not be credentials.
func lastArgumentRule(args []argument) (flow, bool) {
	last := len(args) - 1
	return newTextFlow(args[last].flow), !slices.ContainsFunc(args[:last], func(a argument) bool { return !a.flow.isPlain() })
}

// printfRule is the rule of printf with a literal format: a credential must have %s, %q or %v, none
// of which shortens it.
func printfRule(args []argument) (flow, bool) {
	format, ok := args[0].node.(*parse.StringNode)
	if !ok {
		return flow{}, false
	}
	verbs, ok := verbsOf(format.Text)
	for i, a := range args[1:] {
		if !a.flow.isPlain() && (i >= len(verbs) || !slices.Contains([]string{"s", "q", "v"}, verbs[i])) {
			return flow{}, false
		}
	}
	return newTextFlow(flows(args)...), ok
}

// directive matches one directive of a format, as package fmt parses it: flags come before the
// width, and the letter after them is the verb. It takes the next argument, unless it is "%%".
var directive = regexp.MustCompile(`^[-+# 0]*[0-9]*(?:\.[0-9]*)?[a-zA-Z%]`)

// verbsOf returns the verbs of a format that take an argument, with their flags; false if it is
// unclear which argument a verb takes.
func verbsOf(format string) ([]string, bool) {
	var verbs []string
	for {
		_, rest, found := strings.Cut(format, "%")
		if !found {
			return verbs, true
		}
		verb := directive.FindString(rest)
		if verb == "" {
			return nil, false
		}
		if !strings.HasSuffix(verb, "%") {
			verbs = append(verbs, verb)
		}
		format = rest[len(verb):]
	}
}

// emptyComparisonRule is the rule of eq and ne of a credential with "".
func emptyComparisonRule(args []argument) (flow, bool) {
	if len(args) != 2 {
		return flow{}, false
	}
	for i, a := range args {
		if isString(a.node, "") {
			return flow{}, canTestIfSet(args[1-i:][:1]) && args[1-i].flow.kind == flowText
		}
	}
	return flow{}, false
}

// dictRule is the rule of dict. It tracks each entry with a literal key separately.
func dictRule(args []argument) (flow, bool) {
	out := flow{fields: map[string]flow{}}
	literal, allDecoded := true, true
	for i := 0; i < len(args); i += 2 {
		key, value := args[i], argument{node: &parse.NilNode{}} // the last key can lack a value
		if i+1 < len(args) {
			value = args[i+1]
		}
		if !key.flow.isPlain() {
			return flow{}, false
		}
		k, ok := key.node.(*parse.StringNode)
		literal, allDecoded = literal && ok, allDecoded && isUnsharedDecodedOrLiteral(value)
		if ok {
			out.fields[k.Text] = value.flow
		}
		if out.from == "" {
			out.from = value.flow.from
		}
	}
	switch {
	case allDecoded:
		return newDecodedFlow(args), true
	case !literal:
		var values []argument
		for i := 1; i < len(args); i += 2 {
			values = append(values, args[i])
		}
		elem := joinArgumentFlows(values)
		out.fields, out.elem = nil, &elem
	}
	return newEntriesFlow(out), true
}

// isUnsharedDecodedOrLiteral reports whether everything in a value is decoded or a literal, so that no map without
// credentials contains it.
func isUnsharedDecodedOrLiteral(a argument) bool {
	switch n := a.node.(type) {
	case *parse.StringNode, *parse.NumberNode, *parse.BoolNode, *parse.NilNode:
		return true
	case *parse.PipeNode:
		if a.flow.isPlain() {
			return isLiteralDict(n)
		}
	}
	return a.flow.kind == flowDecoded && !a.flow.shared
}

// isLiteralDict reports whether a pipeline is a dict of literals.
func isLiteralDict(p *parse.PipeNode) bool {
	if len(p.Cmds) != 1 || len(p.Decl) > 0 {
		return false
	}
	name, ok := p.Cmds[0].Args[0].(*parse.IdentifierNode)
	return ok && name.Ident == "dict" && !slices.ContainsFunc(p.Cmds[0].Args[1:], func(n parse.Node) bool {
		switch n.(type) {
		case *parse.StringNode, *parse.NumberNode, *parse.BoolNode, *parse.NilNode:
			return false
		}
		return true
	})
}

func newDecodedFlow(args []argument) flow {
	return flow{kind: flowDecoded, from: newTextFlow(flows(args)...).from}
}

func flows(args []argument) []flow {
	out := make([]flow, len(args))
	for i, a := range args {
		out[i] = a.flow
	}
	return out
}

// joinArgumentFlows returns the flow of a value that is one of the arguments.
func joinArgumentFlows(args []argument) flow {
	var out flow
	for i, a := range args {
		if i == 0 {
			out = a.flow
		} else {
			out = join(out, a.flow)
		}
	}
	return out
}

// canTestIfSet reports whether a template can test if the arguments are set.
func canTestIfSet(args []argument) bool {
	return !slices.ContainsFunc(args, func(a argument) bool { return a.flow.maybeBlank })
}

// isRestPlain reports whether the arguments after the first are plain.
func isRestPlain(args []argument) bool {
	return !slices.ContainsFunc(args[1:], func(a argument) bool { return !a.flow.isPlain() })
}

func isString(n parse.Node, text string) bool {
	s, ok := n.(*parse.StringNode)
	return ok && s.Text == text
}

// mayBeMap checks the argument of functions that take only maps.
func mayBeMap(f flow) bool { return f.kind == flowEntries || f.kind == flowDecoded }

// entryAt returns the flow of the entry of a map at a key; of any entry if the key is not a
// literal.
func entryAt(f flow, key argument) flow {
	if s, ok := key.node.(*parse.StringNode); ok && f.fields != nil {
		return f.fields[s.Text]
	}
	return f.anyEntry()
}
