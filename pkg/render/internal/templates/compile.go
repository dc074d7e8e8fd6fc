package templates

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/funcs"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/parsetree"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/taint"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/templateerror"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/userdata"
)

// Compiler parses the templates of one profile. One rendering at a time executes them.
type Compiler struct{ limiter *limiter }

// NewCompiler returns a compiler of templates that read a struct of type data. marks is nil
// unless the templates are for an Inspector.
func NewCompiler(data reflect.Type, marks *Marks) Compiler {
	return Compiler{&limiter{data: data, marks: marks}}
}

// Stage is one stage of a profile with its templates parsed. All renderings share it.
type Stage struct {
	Name string
	// Files are those of the profile, in its order.
	Files []File

	gate *limiter
	// templates are in the order of their names.
	templates []namedTemplate
}

// namedTemplate is one entry of `templates`. It is executed alone, and files insert its output
// by its name.
type namedTemplate struct {
	name, field string
	tmpl        *program // nil for text without actions
	text        string
}

// File is a file of a stage.
type File struct {
	// Item is the field of the profile with the file, and Field that with its content.
	Item, Field string
	Path        string
	Permissions int32
	// Text is the content, which can contain actions.
	Text string

	encoding string
	tmpl     *program // nil for text without actions
	// inserts are the named templates of the stage that the file can execute.
	inserts []insert
}

// insert is the place in a file that executes a named template of the stage. Each rendering
// writes its own text there, and holds the gate meanwhile.
type insert struct {
	name       string
	into       *template.Template
	tree       *parse.Tree
	text       *parse.TextNode // all that is in tree
	definition *parse.Tree     // what the file itself defines under the name, nil if nothing
}

// setText sets the text. As during parsing, a blank text does not replace a template that the file
// defines under that name.
func (i *insert) setText(text string) {
	i.text.Text = []byte(text)
	i.into.Tree = i.tree
	if text == "" && i.definition != nil {
		i.into.Tree = i.definition
	}
}

// ParseStage parses the templates of a stage. The result lists the errors in problems; their text
// depends on the profile alone.
func (c Compiler) ParseStage(name string, config *osm.OSPConfig) (Stage, []*invalid.Error) {
	g := c.limiter
	stage := Stage{Name: name, gate: g}
	root := "spec." + name + "Config"
	var problems []*invalid.Error

	// The texts of all templates and their fields: a runtime's first, so that the stage's win.
	texts, fields := map[string]string{}, map[string]string{}
	addTemplates := func(field string, templates map[string]string) {
		for name, text := range templates {
			texts[name], fields[name] = text, field+".templates["+name+"]"
		}
	}
	files, fileFields := []osm.File(nil), []string(nil)
	addFiles := func(field string, list []osm.File) {
		for i, f := range list {
			files, fileFields = append(files, f), append(fileFields, field+".files["+strconv.Itoa(i)+"]")
		}
	}
	addFiles(root, config.Files)
	runtime := slices.IndexFunc(config.SupportedContainerRuntimes, func(r osm.ContainerRuntimeSpec) bool {
		return r.Name == osm.ContainerRuntimeContainerd
	})
	if runtime >= 0 {
		field := root + ".supportedContainerRuntimes[" + strconv.Itoa(runtime) + "]"
		addTemplates(field, config.SupportedContainerRuntimes[runtime].Templates)
		addFiles(field, config.SupportedContainerRuntimes[runtime].Files)
	}
	addTemplates(root, config.Templates)

	for _, name := range slices.Sorted(maps.Keys(texts)) {
		t := namedTemplate{name: name, field: fields[name], text: texts[name]}
		if strings.ContainsAny(name, "\"\n") {
			problems = append(problems, invalid.At(t.field, "the name %q holds a quote or a line break, so that no template can invoke it: rename it", name))
		}
		tmpl, more := g.parse(name, t.field, t.text)
		problems = append(problems, more...)
		t.tmpl = tmpl
		stage.templates = append(stage.templates, t)
	}
	for i, f := range files {
		file, more := g.compileFile(fileFields[i], f, texts)
		problems = append(problems, more...)
		stage.Files = append(stage.Files, file)
	}
	return stage, invalid.SetStage(name, problems...)
}

func (g *limiter) compileFile(field string, f osm.File, templates map[string]string) (File, []*invalid.Error) {
	file := File{Item: field, Field: field + ".content.inline.data", Path: f.Path, Permissions: f.Permissions}
	var problems []*invalid.Error
	at := func(p *invalid.Error) {
		p.File = f.Path
		problems = append(problems, p)
	}
	if file.Permissions == 0 {
		file.Permissions = osm.DefaultFilePermissions
	}
	if _, err := userdata.ParsePermissions(file.Permissions); err != nil {
		at(invalid.At(field+".permissions", "%w", err))
	}
	if f.Path == "" {
		at(invalid.At(field+".path", "is empty: name the file's path on the node"))
	}
	if f.Content.Inline == nil {
		at(invalid.At(field+".content", "has no inline: write content.inline.data, the only source of content"))
		return file, problems
	}
	file.encoding, file.Text = f.Content.Inline.Encoding, f.Content.Inline.Data
	tmpl, wrong := g.parse(f.Path, file.Field, file.Text)
	for _, p := range wrong {
		at(p)
	}
	var inserts []string
	if text, ok := templates[f.Path]; ok && text != "" {
		// A template named like the file replaces its body, so the file has to be
		// executed even if it has no actions itself.
		inserts = append(inserts, f.Path)
		if tmpl == nil {
			tmpl = &program{Template: template.Must(template.New(f.Path).Parse(file.Text))} // text without actions always parses
		}
	}
	if tmpl == nil {
		return file, problems
	}
	for _, name := range tmpl.invoked() {
		if _, ok := templates[name]; ok && !slices.Contains(inserts, name) {
			inserts = append(inserts, name)
		}
	}
	for _, name := range inserts {
		in := insert{name: name, tree: parsetree.NewLiteral(name, "")}
		in.text = in.tree.Root.Nodes[0].(*parse.TextNode)
		// The execution of the named template has recorded its credentials in the shape.
		in.tree.Root.Nodes = []parse.Node{tmpl.newOmissionStep(-1), in.text}
		if in.into = tmpl.Lookup(name); in.into == nil {
			in.into = template.Must(tmpl.AddParseTree(name, in.tree))
		} else {
			in.definition = in.into.Tree
		}
		file.inserts = append(file.inserts, in)
	}
	file.tmpl = tmpl
	return file, problems
}

// parse returns nil for text without actions, and for text that is not a template.
func (g *limiter) parse(name, field, text string) (*program, []*invalid.Error) {
	if len(text) > maxFileBytes {
		return nil, []*invalid.Error{invalid.At(field, "has %d bytes: a file or template can have %d", len(text), maxFileBytes)}
	}
	if !strings.Contains(text, "{{") {
		return nil, nil
	}
	tmpl, err := template.New(name).Funcs(funcs.Map).Parse(text)
	if err != nil {
		return nil, []*invalid.Error{templateerror.FromTemplateError(name, field, err)}
	}
	if tmpl.Tree == nil { // nothing but definitions and blanks
		tmpl = template.Must(tmpl.AddParseTree(name, parsetree.NewLiteral(name, "")))
	}
	p := &program{Template: tmpl}
	if err := p.insertSteps(); err != nil {
		return nil, []*invalid.Error{{Field: field, Line: lineOf(text, err.pos), Err: err}}
	}
	problems, printing := taint.Check(tmpl, g.data, text, field)
	if len(printing) > 0 {
		for _, t := range p.defined() {
			p.addOmissions(t.Root, printing)
		}
	}
	if g.marks != nil {
		g.marks.add(p, source{text: text, field: field, name: name})
	}
	g.bindFunctions(p)
	return p, problems
}

// lineOf returns the line of a position in a template.
func lineOf(source string, pos parse.Pos) int { return invalid.LineOf(source, int(pos)) }

// invoked returns the names that a template and those defined in it invoke.
func (p *program) invoked() []string {
	var names []string
	for _, t := range p.defined() {
		parsetree.Walk(t.Root, func(n parse.Node) bool {
			if n, ok := n.(*parse.TemplateNode); ok {
				names = append(names, n.Name)
			}
			return true
		})
	}
	slices.Sort(names)
	return slices.Compact(names)
}
