// Package inert has what the framework gets in the place of what writes: a pod client whose writes
// do nothing but hint at a change, and a recorder without Events. The status of pods, their deletion
// and their Events are others' alone. It imports nothing of the project.
package inert
