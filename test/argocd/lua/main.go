// Command lua runs the scripts of examples/argocd/argocd-cm.yaml as Argo CD runs them. It
// is a module of its own, so that the product does not carry a Lua interpreter.
//
//	lua ARGOCD-CM.YAML <REQUESTS >ANSWERS
//
// It reads a JSON list of requests and writes a list of answers. What Argo CD lets a
// script have and does with what comes back is in its util/lua/lua.go and
// oslib_safe.go (v3.5.7): the libraries package, base and table; of os, by require alone,
// time and date; the object as the global obj; one second.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
	luajson "layeh.com/gopher-json"
	"sigs.k8s.io/yaml"
)

// request is one script to run on one object.
type request struct {
	Object map[string]any `json:"object"`
	// Script is "health", "discovery", or the name of an action.
	Script string `json:"script"`
}

// answer is what a script returned, or why it did not.
type answer struct {
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// actions is the value of a key resource.customizations.actions.
type actions struct {
	Discovery   string `json:"discovery.lua"`
	Definitions []struct {
		Name   string `json:"name"`
		Action string `json:"action.lua"`
	} `json:"definitions"`
}

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "lua:", err)
		os.Exit(1)
	}
}

func run(args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 1 {
		return errors.New("give the path of argocd-cm.yaml")
	}
	b, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var cm struct {
		Data map[string]string `json:"data"`
	}
	if err := yaml.Unmarshal(b, &cm); err != nil {
		return fmt.Errorf("reading %s: %w", args[0], err)
	}
	var requests []request
	if err := json.NewDecoder(stdin).Decode(&requests); err != nil {
		return fmt.Errorf("reading requests: %w", err)
	}
	answers := make([]answer, len(requests))
	for i, r := range requests {
		result, err := r.answer(cm.Data)
		answers[i].Result = result
		if err != nil {
			answers[i].Error = err.Error()
		}
	}
	return json.NewEncoder(stdout).Encode(answers)
}

func (r request) answer(data map[string]string) (any, error) {
	script, err := r.script(data)
	if err != nil {
		return nil, err
	}
	result, err := execute(script, r.Object)
	if err != nil {
		return nil, err
	}
	if r.Script != "health" && r.Script != "discovery" {
		return clean(result, r.Object), nil
	}
	return result, nil
}

// script returns the text to run. A key of argocd-cm has "_" between group and kind.
func (r request) script(data map[string]string) (string, error) {
	version, _ := r.Object["apiVersion"].(string)
	group, _, _ := strings.Cut(version, "/")
	kind, _ := r.Object["kind"].(string)
	suffix := "." + group + "_" + kind
	if r.Script == "health" {
		text, ok := data["resource.customizations.health"+suffix]
		if !ok {
			return "", fmt.Errorf("no health check for %s", suffix[1:])
		}
		return text, nil
	}
	var a actions
	text, ok := data["resource.customizations.actions"+suffix]
	if !ok {
		return "", fmt.Errorf("no actions for %s", suffix[1:])
	}
	if err := yaml.UnmarshalStrict([]byte(text), &a); err != nil {
		return "", fmt.Errorf("reading the actions of %s: %w", suffix[1:], err)
	}
	if r.Script == "discovery" {
		return a.Discovery, nil
	}
	for _, d := range a.Definitions {
		if d.Name == r.Script {
			return d.Action, nil
		}
	}
	return "", fmt.Errorf("%s has no action %q", suffix[1:], r.Script)
}

func execute(script string, object map[string]any) (any, error) {
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{{lua.LoadLibName, lua.OpenPackage}, {lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(library.open), Protect: true}, lua.LString(library.name)); err != nil {
			return nil, err
		}
	}
	l.PreloadModule(lua.OsLibName, safeOS)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	l.SetContext(ctx)
	l.SetGlobal("obj", toLua(l, object))
	if err := l.DoString(script); err != nil {
		return nil, err
	}
	returned := l.Get(-1)
	if returned.Type() != lua.LTTable {
		return nil, fmt.Errorf("the script returned a %s, not a table", returned.Type())
	}
	b, err := luajson.Encode(returned)
	if err != nil {
		return nil, err
	}
	var out any
	return out, json.Unmarshal(b, &out)
}

// safeOS has of the library os what Argo CD leaves of it.
func safeOS(l *lua.LState) int {
	whole := l.NewTable()
	l.Push(l.NewFunction(lua.OpenOs))
	l.Push(lua.LString(lua.OsLibName))
	l.Call(1, 1)
	if opened, ok := l.Get(-1).(*lua.LTable); ok {
		for _, name := range []string{"time", "date"} {
			whole.RawSetString(name, opened.RawGetString(name))
		}
	}
	l.Pop(1)
	l.SetGlobal(lua.OsLibName, lua.LNil)
	l.Push(whole)
	return 1
}

func toLua(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case bool:
		return lua.LBool(v)
	case float64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case []any:
		out := l.CreateTable(len(v), 0)
		for _, item := range v {
			out.Append(toLua(l, item))
		}
		return out
	case map[string]any:
		out := l.CreateTable(0, len(v))
		for key, item := range v {
			out.RawSetString(key, toLua(l, item))
		}
		return out
	}
	return lua.LNil
}

// clean puts back the empty objects of before, which Lua returns as empty lists.
func clean(now, before any) any {
	switch was := before.(type) {
	case map[string]any:
		if list, ok := now.([]any); ok && len(list) == 0 {
			return map[string]any{}
		}
		if is, ok := now.(map[string]any); ok {
			for key, value := range is {
				is[key] = clean(value, was[key])
			}
		}
	case []any:
		if is, ok := now.([]any); ok {
			for i := range min(len(is), len(was)) {
				is[i] = clean(is[i], was[i])
			}
		}
	}
	return now
}
