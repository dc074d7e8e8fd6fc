// Package githost knows the web addresses of Git hosts: GitHub, GitLab, Gitea and Forgejo,
// Bitbucket and Azure DevOps. Start with LinksOf.
package githost
