// Package podfiles carries the files of a pod into its task: packed, sealed with the pod's own key,
// split into what one secret or object holds, and named so that the first name tells all others.
// The backend writes them, the program in the task reads them. It calls nobody and imports nothing
// of the project.
package podfiles
