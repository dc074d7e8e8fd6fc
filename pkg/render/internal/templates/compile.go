package templates

import (
	"cmp"
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

	limiter *limiter
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
	// outputSlots are for the named templates of the stage that the file can execute.
	outputSlots []outputSlot
}

// outputSlot is the template of a file in place of a named template of the stage: it only has the
// output of that template. Each rendering sets its own output, and holds the lock of the limiter
// meanwhile.
type outputSlot struct {
	name       string
	template   *template.Template // of the file, with the name
	tree       *parse.Tree        // of an omission step and outputNode
	outputNode *parse.TextNode
	definition *parse.Tree // that the file itself defines under the name, nil if there is none
}

// setOutput replaces the output that the file inserts. As during parsing, an empty output does not
// replace a template that the file itself defines under that name.
func (s *outputSlot) setOutput(output string) {
	s.outputNode.Text = []byte(output)
	s.template.Tree = s.tree
	if output == "" && s.definition != nil {
		s.template.Tree = s.definition
	}
}

// ParseStage parses the templates of a stage. The result lists the errors in problems; their text
// depends on the profile alone.
func (c Compiler) ParseStage(name string, config *osm.OSPConfig) (Stage, []*invalid.Error) {
	g := c.limiter
	stage := Stage{Name: name, limiter: g}
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
	report := func(p *invalid.Error) {
		p.File = f.Path
		problems = append(problems, p)
	}
	file.Permissions = cmp.Or(file.Permissions, osm.DefaultFilePermissions)
	if _, err := userdata.ParsePermissions(file.Permissions); err != nil {
		report(invalid.At(field+".permissions", "%w", err))
	}
	if f.Path == "" {
		report(invalid.At(field+".path", "is empty: name the file's path on the node"))
	}
	if f.Content.Inline == nil {
		report(invalid.At(field+".content", "has no inline: write content.inline.data, the only source of content"))
		return file, problems
	}
	file.encoding, file.Text = f.Content.Inline.Encoding, f.Content.Inline.Data
	tmpl, wrong := g.parse(f.Path, file.Field, file.Text)
	for _, p := range wrong {
		report(p)
	}
	var slotNames []string
	if text, ok := templates[f.Path]; ok && text != "" {
		// A template named like the file replaces its body, so the file has to be
		// executed even if it has no actions itself.
		slotNames = append(slotNames, f.Path)
		if tmpl == nil {
			tmpl = &program{Template: template.Must(template.New(f.Path).Parse(file.Text))} // text without actions always parses
		}
	}
	if tmpl == nil {
		return file, problems
	}
	for _, name := range tmpl.invokedTemplateNames() {
		if _, ok := templates[name]; ok && !slices.Contains(slotNames, name) {
			slotNames = append(slotNames, name)
		}
	}
	for _, name := range slotNames {
		slot := outputSlot{name: name, tree: parsetree.NewEmpty(name)}
		slot.outputNode = slot.tree.Root.Nodes[0].(*parse.TextNode)
		// The execution of the named template has recorded its credentials in the shape.
		slot.tree.Root.Nodes = []parse.Node{tmpl.newOmissionStep(-1), slot.outputNode}
		if slot.template = tmpl.Lookup(name); slot.template == nil {
			slot.template = template.Must(tmpl.AddParseTree(name, slot.tree))
		} else {
			slot.definition = slot.template.Tree
		}
		file.outputSlots = append(file.outputSlots, slot)
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
		tmpl = template.Must(tmpl.AddParseTree(name, parsetree.NewEmpty(name)))
	}
	p := &program{Template: tmpl}
	if err := p.insertMeteringSteps(); err != nil {
		return nil, []*invalid.Error{{Field: field, Line: lineOf(text, err.pos), Err: err}}
	}
	problems, credentialActions := taint.Check(tmpl, g.data, text, field)
	if len(credentialActions) > 0 {
		for _, t := range p.definedTemplates() {
			p.insertOmissionSteps(t.Root, credentialActions)
		}
	}
	if g.marks != nil {
		g.marks.markTemplate(p, source{text: text, field: field, name: name})
	}
	g.bindFunctions(p)
	return p, problems
}

// lineOf returns the line of a position in a template.
func lineOf(source string, pos parse.Pos) int { return invalid.LineOf(source, int(pos)) }

// invokedTemplateNames returns the names that a template and those defined in it invoke.
func (p *program) invokedTemplateNames() []string {
	var names []string
	for _, t := range p.definedTemplates() {
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
