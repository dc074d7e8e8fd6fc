package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// ownName is what the program is called, unless it is somebody's plugin.
const ownName = "osm-gitops"

// calledAs is what a person types to run the program under a name, of which "-" parts
// words:
//
//	kubectl-osm_gitops  kubectl osm_gitops  https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/
//	flux-osm            flux osm            https://github.com/fluxcd/flux2/tree/main/rfcs/0013-cli-plugin-system
func calledAs(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".exe")
	for _, host := range []string{"kubectl", "flux"} {
		if plugin, ok := strings.CutPrefix(name, host+"-"); ok {
			return host + " " + plugin
		}
	}
	return ownName
}

// speakAs lets usage texts and examples say what a person types.
func speakAs(cmd *cobra.Command, name string) {
	if name == ownName {
		return
	}
	if !cmd.HasParent() {
		cmd.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	}
	cmd.Long, cmd.Example = as(name, cmd.Long), as(name, cmd.Example)
	for _, sub := range cmd.Commands() {
		speakAs(sub, name)
	}
}

// as puts the name that a person types in place of the program's.
func as(name, text string) string { return strings.ReplaceAll(text, ownName+" ", name+" ") }
