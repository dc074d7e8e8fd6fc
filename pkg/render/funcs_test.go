package render

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/sprig/v3"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/funcs"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/templates"
)

// security.md 16: every function of sprig is either allowed or rejected with a reason, and a
// rejected one is a parse error.
func TestSprigAllowList(t *testing.T) {
	all := sprig.TxtFuncMap()
	for name := range all {
		allowed := slices.Contains(funcs.AllowedSprig, name)
		reason := funcs.ForbiddenSprig[name]
		switch {
		case allowed && reason != "":
			t.Errorf("%q is both allowed and refused", name)
		case !allowed && reason == "":
			t.Errorf("sprig has the function %q: decide whether templates may call it", name)
		case !allowed:
			if _, ok := funcs.Map[name]; ok {
				t.Errorf("%q is refused, but templates can call it", name)
			}
			if _, err := execute(&data{}, "{{ "+name+" }}"); err == nil || !strings.Contains(err.Error(), reason) {
				t.Errorf("calling %q gives %v, want the reason %q", name, err, reason)
			}
		}
	}
	for _, name := range funcs.AllowedSprig {
		if all[name] == nil {
			t.Errorf("%q is allowed, but sprig does not have it", name)
		}
	}
	osmFuncs := strings.Fields("toYaml fromYaml fromYamlArray toJson fromJson fromJsonArray toToml fromToml")
	for name := range funcs.Map {
		if !slices.Contains(funcs.AllowedSprig, name) && !slices.Contains(osmFuncs, name) && !slices.Contains(funcs.Builtins, name) {
			t.Errorf("templates can call %q, which is on no list", name)
		}
	}
}

// calls has one call of every function that templates can use.
var calls = map[string]string{
	"abbrev": `{{ abbrev 5 "hello world" }}`, "abbrevboth": `{{ abbrevboth 5 10 "1234 5678 9123" }}`,
	"trunc": `{{ trunc 2 "abc" }}`, "trim": `{{ trim " a " }}`, "upper": `{{ upper "a" }}`, "lower": `{{ lower "A" }}`,
	"title": `{{ title "ab" }}`, "untitle": `{{ untitle "Ab" }}`, "substr": `{{ substr 0 1 "ab" }}`, "repeat": `{{ repeat 3 "a" }}`,
	"trimall": `{{ trimall "$" "$5" }}`, "trimAll": `{{ trimAll "$" "$5" }}`, "trimSuffix": `{{ trimSuffix "-" "a-" }}`, "trimPrefix": `{{ trimPrefix "-" "-a" }}`,
	"nospace": `{{ nospace "a b" }}`, "initials": `{{ initials "Ab Cd" }}`, "swapcase": `{{ swapcase "aB" }}`, "snakecase": `{{ snakecase "AbCd" }}`,
	"camelcase": `{{ camelcase "ab_cd" }}`, "kebabcase": `{{ kebabcase "AbCd" }}`, "wrap": `{{ wrap 3 "abc def" }}`, "wrapWith": `{{ wrapWith 3 "-" "abc def" }}`,
	"contains": `{{ contains "a" "abc" }}`, "hasPrefix": `{{ hasPrefix "a" "abc" }}`, "hasSuffix": `{{ hasSuffix "a" "abc" }}`,
	"quote": `{{ quote .MaxPods .HTTPProxy .KubeReserved }}`, "squote": `{{ squote .MaxPods }}`, "cat": `{{ cat .MaxPods "a" .NoProxy }}`,
	"indent": `{{ indent 2 "a" }}`, "nindent": `{{ nindent 2 "a" }}`, "replace": `{{ replace "a" "b" "aa" }}`, "plural": `{{ plural "one" "many" 2 }}`,
	"toString": `{{ toString .MaxPods }}{{ toString .ImageMinimumGCAge }}{{ toString .NoProxy }}`, "atoi": `{{ atoi "5" }}`, "int64": `{{ int64 .MaxPods }}`, "int": `{{ int "5" }}`,
	"float64": `{{ float64 "5.5" }}`, "toDecimal": `{{ toDecimal "0777" }}`,
	"sha1sum": `{{ sha1sum "a" }}`, "sha256sum": `{{ sha256sum "a" }}`, "sha512sum": `{{ sha512sum "a" }}`, "adler32sum": `{{ adler32sum "a" }}`,
	"seq": `{{ seq 3 }}`, "until": `{{ until 3 }}`, "untilStep": `{{ untilStep 0 6 2 }}`, "split": `{{ split "," "a,b" }}`, "splitList": `{{ splitList "," "a,b" }}`,
	"splitn": `{{ splitn "," 2 "a,b,c" }}`, "toStrings": `{{ toStrings (list .MaxPods 2) }}`, "join": `{{ join "," (list .MaxPods .HTTPProxy) }}`,
	"sortAlpha": `{{ sortAlpha (list "b" .HTTPProxy) }}`,
	"add1":      `{{ add1 1 }}`, "add": `{{ add .MaxPods 2 }}`, "sub": `{{ sub 3 2 }}`, "div": `{{ div 4 2 }}`, "mod": `{{ mod 5 2 }}`, "mul": `{{ mul 2 3 }}`,
	"add1f": `{{ add1f 1.5 }}`, "addf": `{{ addf 1.5 2 }}`, "subf": `{{ subf 3.5 2 }}`, "divf": `{{ divf 3 2 }}`, "mulf": `{{ mulf 1.5 2 }}`,
	"biggest": `{{ biggest 1 2 }}`, "max": `{{ max 1 2 }}`, "min": `{{ min 1 2 }}`, "maxf": `{{ maxf 1.5 2 }}`, "minf": `{{ minf 1.5 2 }}`,
	"ceil": `{{ ceil 1.5 }}`, "floor": `{{ floor 1.5 }}`, "round": `{{ round 1.555 2 }}`,
	"default": `{{ .MaxPods | default 1 }}{{ .ContainerLogMaxSize | default "x" }}`, "empty": `{{ empty .HTTPProxy }}`, "coalesce": `{{ coalesce .ContainerLogMaxSize .MaxPods }}`,
	"all": `{{ all 1 .MaxPods }}`, "any": `{{ any 0 "" }}`, "compact": `{{ compact (list 1 0 2) }}`, "mustCompact": `{{ mustCompact (list 1 0 2) }}`,
	"ternary": `{{ ternary .MaxPods 2 true }}`, "fail": `{{ if false }}{{ fail "x" }}{{ end }}`, "hello": `{{ hello }}`,
	"toJson": `{{ toJson .KubeReserved }}`, "toPrettyJson": `{{ toPrettyJson .KubeletFeatureGates }}`, "toRawJson": `{{ toRawJson .KubeletFeatureGates }}`,
	"mustFromJson": `{{ mustFromJson "{\"b\":1,\"a\":2}" }}`, "mustToJson": `{{ mustToJson . }}`, "mustToPrettyJson": `{{ mustToPrettyJson .KubeReserved }}`,
	"mustToRawJson": `{{ mustToRawJson .KubeReserved }}`, "fromJson": `{{ fromJson "{\"b\":1,\"a\":2}" }}`, "fromJsonArray": `{{ fromJsonArray "[1,2]" }}`,
	"toYaml": `{{ toYaml .KubeletFeatureGates }}`, "fromYaml": `{{ fromYaml "b: 1\na: {d: 1, c: 2}" }}`, "fromYamlArray": `{{ fromYamlArray "[1, 2]" }}`,
	"toToml": `{{ toToml .KubeletFeatureGates }}`, "fromToml": `{{ fromToml "b = 1\na = 2" }}`,
	"deepCopy": `{{ deepCopy (dict "b" 1 "a" .MaxPods) }}`, "mustDeepCopy": `{{ mustDeepCopy (dict "b" 1 "a" 2) }}`, "deepEqual": `{{ deepEqual 1 1 }}`,
	"typeOf": `{{ typeOf . }}`, "typeIs": `{{ typeIs "int" 1 }}`, "typeIsLike": `{{ typeIsLike "int" 1 }}`, "kindOf": `{{ kindOf . }}`, "kindIs": `{{ kindIs "int" 1 }}`,
	"base": `{{ base "/a/b" }}`, "dir": `{{ dir "/a/b" }}`, "clean": `{{ clean "/a/../b" }}`, "ext": `{{ ext "a.b" }}`, "isAbs": `{{ isAbs "/a" }}`,
	"osBase": `{{ osBase "/a/b" }}`, "osClean": `{{ osClean "/a/../b" }}`, "osDir": `{{ osDir "/a/b" }}`, "osExt": `{{ osExt "a.b" }}`, "osIsAbs": `{{ osIsAbs "/a" }}`,
	"b64enc": `{{ b64enc "a" }}`, "b64dec": `{{ b64dec "YQ==" }}`, "b32enc": `{{ b32enc "a" }}`, "b32dec": `{{ b32dec "ME======" }}`,
	"tuple": `{{ tuple .MaxPods .HTTPProxy }}`, "list": `{{ list .MaxPods (list .HTTPProxy) }}`, "dict": `{{ dict "b" .MaxPods "a" .KubeReserved }}`,
	"get": `{{ get (dict "a" 1) "a" }}`, "set": `{{ set (dict "a" 1) "b" .MaxPods }}`, "unset": `{{ unset (dict "a" 1 "b" 2) "a" }}`, "hasKey": `{{ hasKey (dict "a" 1) "a" }}`,
	"pluck": `{{ pluck "a" (dict "a" 1) (dict "a" 2) }}`, "keys": `{{ keys (dict "c" 1 "b" 2 "a" 3 "d" 4 "e" 5) }}`, "values": `{{ values (dict "c" 1 "b" 2 "a" 3 "d" 4 "e" 5) }}`,
	"pick": `{{ pick (dict "b" 1 "a" 2) "a" "b" }}`, "omit": `{{ omit (dict "b" 1 "a" 2 "c" 3) "a" }}`,
	"merge": `{{ merge (dict "b" 1) (dict "a" 2) }}`, "mergeOverwrite": `{{ mergeOverwrite (dict "b" 1) (dict "a" 2) }}`,
	"mustMerge": `{{ mustMerge (dict "b" 1) (dict "a" 2) }}`, "mustMergeOverwrite": `{{ mustMergeOverwrite (dict "b" 1) (dict "a" 2) }}`,
	"append": `{{ append (list 1) .MaxPods }}`, "push": `{{ push (list 1) .MaxPods }}`, "mustAppend": `{{ mustAppend (list 1) .MaxPods }}`, "mustPush": `{{ mustPush (list 1) .MaxPods }}`,
	"prepend": `{{ prepend (list 1) .MaxPods }}`, "mustPrepend": `{{ mustPrepend (list 1) .MaxPods }}`,
	"first": `{{ first (list .MaxPods 2) }}`, "mustFirst": `{{ mustFirst (list 1 2) }}`, "rest": `{{ rest (list 1 .MaxPods) }}`, "mustRest": `{{ mustRest (list 1 2) }}`,
	"last": `{{ last (list 1 .MaxPods) }}`, "mustLast": `{{ mustLast (list 1 2) }}`, "initial": `{{ initial (list 1 2) }}`, "mustInitial": `{{ mustInitial (list 1 2) }}`,
	"reverse": `{{ reverse (list 1 .MaxPods) }}`, "mustReverse": `{{ mustReverse (list 1 2) }}`, "uniq": `{{ uniq (list 1 1 .MaxPods) }}`, "mustUniq": `{{ mustUniq (list 1 1) }}`,
	"without": `{{ without (list 1 2) 1 }}`, "mustWithout": `{{ mustWithout (list 1 2) 1 }}`, "has": `{{ has 1 (list 1 2) }}`, "mustHas": `{{ mustHas 1 (list 1 2) }}`,
	"slice": `{{ slice (list 1 2 3) 1 2 }}`, "mustSlice": `{{ mustSlice (list 1 2 3) 1 2 }}`, "concat": `{{ concat (list 1) (list .MaxPods) }}`,
	"dig": `{{ dig "a" "x" (dict "a" 1) }}`, "chunk": `{{ chunk 2 (list 1 2 3) }}`, "mustChunk": `{{ mustChunk 2 (list 1 2 3) }}`,
	"semver": `{{ semver "1.2.3-rc.1+b" }}`, "semverCompare": `{{ semverCompare ">=1.30" .KubeVersion }}`,
	"regexMatch": `{{ regexMatch "a+" "aa" }}`, "mustRegexMatch": `{{ mustRegexMatch "a+" "aa" }}`, "regexFindAll": `{{ regexFindAll "a" "aba" -1 }}`,
	"mustRegexFindAll": `{{ mustRegexFindAll "a" "aba" -1 }}`, "regexFind": `{{ regexFind "a" "ba" }}`, "mustRegexFind": `{{ mustRegexFind "a" "ba" }}`,
	"regexReplaceAll": `{{ regexReplaceAll "a" "ba" "c" }}`, "mustRegexReplaceAll": `{{ mustRegexReplaceAll "a" "ba" "c" }}`,
	"regexReplaceAllLiteral": `{{ regexReplaceAllLiteral "a" "ba" "c" }}`, "mustRegexReplaceAllLiteral": `{{ mustRegexReplaceAllLiteral "a" "ba" "c" }}`,
	"regexSplit": `{{ regexSplit "," "a,b" -1 }}`, "mustRegexSplit": `{{ mustRegexSplit "," "a,b" -1 }}`, "regexQuoteMeta": `{{ regexQuoteMeta "a.b" }}`,
	"urlParse": `{{ urlParse "http://u@h:1/p?q#f" }}`, "urlJoin": `{{ urlJoin (dict "scheme" "http" "host" "h" "path" "/p") }}`,
	"duration": `{{ duration "95" }}`, "durationRound": `{{ durationRound "2h10m5s" }}`,
	"print": `{{ print .MaxPods (list .HTTPProxy) }}`, "println": `{{ println .MaxPods }}`, "printf": `{{ printf "%v %v %d %v %#v" .MaxPods .KubeReserved .MaxPods .ImageMinimumGCAge .KubeReserved }}`,
	"html": `{{ html "<a>" .MaxPods }}`, "js": `{{ js "'" .KubeReserved }}`, "urlquery": `{{ urlquery "a b" .MaxPods }}`,
}

// execute parses and executes one template, without a check of its credentials.
func execute(d *data, text string) (string, error) {
	stage, problems := stageOf(text)
	problems = slices.DeleteFunc(problems, func(p *invalid.Error) bool {
		var credential *CredentialError
		return errors.As(p, &credential)
	})
	if len(problems) > 0 {
		return "", invalid.AsSingleError(problems)
	}
	out, _, problems := executeStage(stage, d)
	return out, invalid.AsSingleError(problems)
}

// stageOf has one file.
func stageOf(text string) (templates.Stage, []*invalid.Error) {
	return templates.NewCompiler(reflect.TypeFor[data](), nil).ParseStage(stageBootstrap, &osm.OSPConfig{Files: []osm.File{inlineFile("/x", text)}})
}

// executeStage returns the content of its file, and the shape of it.
func executeStage(stage templates.Stage, d *data) (string, uint64, []*invalid.Error) {
	x := templates.NewExecution(d)
	files, problems := stage.Execute(x)
	if len(problems) > 0 {
		return "", 0, problems
	}
	return files[0].Content.Inline.Data, x.Shape(), nil
}

// outputs executes every call.
func outputs(t *testing.T) string {
	pods, proxy, empty := int32(5), "http://proxy", ""
	d := &data{KubeVersion: "v1.36.2", HTTPProxy: &proxy, NoProxy: nil, KubeletFeatureGates: map[string]bool{"B": true, "A": false, "C": true}}
	d.MaxPods, d.ContainerLogMaxSize = &pods, &empty
	d.KubeReserved = &map[string]string{"memory": "1Gi", "cpu": "1"}
	if err := setDuration(&d.ImageMinimumGCAge, "90s"); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		text, err := execute(d, calls[name])
		if err != nil {
			t.Errorf("%s: %v", calls[name], err)
		}
		fmt.Fprintf(&b, "%s: %s\n", name, text)
	}
	return b.String()
}

// security.md 19: every function returns the same in another process. Two processes differ in
// addresses and in the order of maps.
func TestFunctionsArePure(t *testing.T) {
	got := outputs(t)
	if os.Getenv("OSM_PRINT_OUTPUTS") != "" {
		os.Stdout.WriteString("\n<<<" + got + ">>>\n")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(funcs.Map)) {
		if calls[name] == "" {
			t.Errorf("no call of %q", name)
		}
	}
	if strings.Contains(got, "0xc0") {
		t.Errorf("an address was printed:\n%s", got)
	}
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFunctionsArePure$", "-test.count=1")
		cmd.Env = append(os.Environ(), "OSM_PRINT_OUTPUTS=1", "GOMAXPROCS=1", "TZ=Asia/Tokyo")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		_, other, _ := strings.Cut(string(out), "<<<")
		other, _, _ = strings.Cut(other, ">>>")
		if other != got {
			t.Fatalf("another process gives\n%s\nthis one\n%s", other, got)
		}
	}
	for _, line := range []string{"values: [3 2 1 4 5]", "keys: [a b c d e]", "join: 5,http://proxy", `quote: "5" "http://proxy"`} {
		if !strings.Contains(got, line) {
			t.Errorf("no line %q in\n%s", line, got)
		}
	}
}

func TestPrintfRefusesAddresses(t *testing.T) {
	for format, ok := range map[string]bool{"%p": false, "%+p": false, "%[1]p": false, "%%p": true, "%d p": true, "%5.2fp": true} {
		if _, err := funcs.PrintfWithoutAddresses(format, 1); (err == nil) != ok {
			t.Errorf("printf %q: error %v", format, err)
		}
	}
}
