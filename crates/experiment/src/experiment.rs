//! A checked experiment file.

use crate::expect::Expect;
use crate::file::File;
use crate::matrix::Matrix;
use crate::metric::Names;
use crate::only::Only;
use crate::overrides::{self, Overrides};
use crate::plan::Plan;
use crate::problem::{Errors, Problem};
use crate::profile;
use crate::read::{Named, Read, Sink};
use crate::resolve::resolve;
use crate::source::Source;
use crate::substitute::Substitution;
use crate::tree::{self, Content, Node};
use crate::{defaults, edges};
use record::Cell;
use record::Clock;
use std::collections::{BTreeMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An experiment file in which every cell of the matrix resolves.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Name.
    pub name: String,
    /// Number of runs of each cell.
    pub repeats: u32,
    /// Default seed of all random draws.
    pub seed: u64,
    /// Default clock of its runs.
    pub clock: Clock,
    /// Checks of the results.
    pub expect: Vec<Expect>,
    /// File of reference figures; absolute path.
    pub reference: Option<PathBuf>,
    /// Files and folders for guests with a separate file system, in addition to those detected
    /// automatically; relative to the file's folder.
    pub files: Vec<String>,
    /// Number of expectations that name values which `--set` removed from the matrix.
    pub skipped_expectations: usize,
    /// Environment variables that the file reads.
    pub variables: Vec<String>,
    /// Their values, of those that are set.
    pub environment: BTreeMap<String, String>,
    changed: bool,
    source: Arc<Source>,
    base: PathBuf,
    tree: Node,
    matrix: Matrix,
}

/// Maximum size of an experiment file, B.
const MAX_FILE_BYTES: u64 = 8 << 20;
/// Maximum number of nodes of all cells together: checking them takes seconds.
const MAX_NODES: usize = if cfg!(test) { 50_000 } else { 2_000_000 };

impl Experiment {
    /// Reads and checks the file at `path`. Paths in it are relative to its folder, and environment
    /// variables are those of this process.
    pub fn read(path: &Path) -> Result<Self, Errors> {
        let environment = |name: &str| std::env::var(name).ok();
        Self::read_with(path, Overrides { set: &[], environment: &environment })
    }

    /// Like `read`, with other values for axes and keys.
    pub fn read_with(path: &Path, overrides: Overrides<'_>) -> Result<Self, Errors> {
        let cannot = |why: String, advice: &str| {
            let text = format!("could not read the experiment file {}: {why}", path.display());
            Errors::bare(Problem::new(text).label(advice))
        };
        // A frequent slip, for which the error of `input` has no useful advice.
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                return Err(cannot("it is a folder".to_owned(), "name the .yaml file in it"));
            }
            _ => {}
        }
        let bytes = input::read(path, MAX_FILE_BYTES).map_err(|error| {
            let advice = match error.kind() {
                ErrorKind::FileTooLarge | ErrorKind::InvalidInput => "is it the right file?",
                _ => "check the path and its permissions",
            };
            cannot(error.to_string(), advice)
        })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let why = format!("byte {} is not UTF-8 text", error.utf8_error().valid_up_to());
            cannot(why, "an experiment is YAML in UTF-8")
        })?;
        Self::parse_with(&text, path, path.parent().unwrap_or(Path::new("")), overrides)
    }

    /// Reads and checks `text`, without an environment. Errors call it `file_name`; paths in it are
    /// relative to `base`.
    pub fn parse(
        text: &str,
        file_name: impl AsRef<Path>,
        base: impl AsRef<Path>,
    ) -> Result<Self, Errors> {
        Self::parse_with(text, file_name, base, Overrides { set: &[], environment: &|_| None })
    }

    /// Like `parse`, with other values for axes and keys.
    pub fn parse_with(
        text: &str,
        file_name: impl AsRef<Path>,
        base: impl AsRef<Path>,
        overrides: Overrides<'_>,
    ) -> Result<Self, Errors> {
        // A byte order mark belongs to the encoding; editors do not show it.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut file = file_name.as_ref().to_owned();
        let done = overrides::apply(text, overrides).map_err(|(text, problems)| {
            Errors::new(Arc::new(Source { file: file.clone(), text }), problems)
        })?;
        if !overrides.set.is_empty() {
            let mut name = file.into_os_string();
            name.push(" with --set");
            file = name.into();
        }
        let changed = done.text != text;
        let source = Arc::new(Source { file, text: done.text });
        let read = Self::checked(source, base.as_ref(), done.other_axes)?;
        let (variables, environment) = (done.variables, done.environment);
        Ok(Self { changed, variables, environment, ..read })
    }

    /// Reads a text that `source` returned, possibly of an experiment with other values for axes.
    pub fn parse_stored(
        text: &str,
        file_name: impl AsRef<Path>,
        base: impl AsRef<Path>,
    ) -> Result<Self, Errors> {
        let source = Source { file: file_name.as_ref().to_owned(), text: text.to_owned() };
        Self::checked(Arc::new(source), base.as_ref(), true)
    }

    /// Reads and checks a text. `other_axes`: expectations may name values that the matrix lacks.
    fn checked(source: Arc<Source>, base: &Path, other_axes: bool) -> Result<Self, Errors> {
        let base = base.to_owned();
        let fail = |problems| Errors::new(source.clone(), problems);
        let (tree, mut problems) = tree::parse(&source.text).map_err(|p| fail(vec![p]))?;
        if !matches!(tree.content, Content::Map(_)) {
            let text = format!("expected an experiment, found {}", tree.kind());
            let problem = Problem::new(text).at(tree.place).label("it starts with `experiment:`");
            return Err(fail(vec![problem]));
        }
        let mut sink = Sink::default();
        let matrix = Matrix::read(&tree, &mut sink);
        problems.append(&mut sink.problems);
        let (mut first, mut names) = (None, Names::default());
        let mut used = HashSet::new();
        let (cells, mut nodes) = (matrix.cells(), 0);
        for cell in &cells {
            let (file, plan, mut sink) = resolve_cell(&tree, &matrix, cell, &base, &mut used);
            nodes += plan.as_ref().map_or(0, |plan| plan.nodes.len());
            plan.iter().for_each(|plan| names.add(plan));
            // One cell alone has to be resolved anyway, to run it.
            if nodes > MAX_NODES && cells.len() > 1 {
                problems.push(too_many_nodes(&matrix, cells.len()));
                return Err(fail(distinct(problems)));
            }
            if let (None, Some(file), Some(plan)) = (&first, file, plan) {
                // Expectations are the same in all cells, so no note may name this cell's values.
                sink.replaced.clear();
                first = Some(finish(file, plan, &matrix, &base, other_axes, &mut sink));
            }
            problems.append(&mut sink.problems);
        }
        // After all cells: names may contain axes.
        let mut sink = Sink::default();
        names.is_partial = !problems.is_empty();
        for expect in first.iter().flat_map(|first| &first.expect) {
            let groups = first.iter().flat_map(|first| first.groups.iter().cloned());
            expect.check(&matrix, &groups.collect::<Vec<_>>(), &names, &mut sink);
        }
        problems.append(&mut sink.problems);
        for axis in matrix.axes().filter(|axis| !used.contains(*axis)) {
            let problem = Problem::new(format!("the axis `{axis}` is not used"));
            let label = format!("write `${{{axis}}}` where its value belongs, or remove it");
            problems.push(problem.at(matrix.place(axis)).label(label));
        }
        let problems = distinct(problems);
        match first {
            Some(first) if problems.is_empty() => Ok(Self {
                name: first.name,
                repeats: first.repeats,
                seed: first.seed,
                clock: first.clock,
                expect: first.expect,
                reference: first.reference,
                files: first.files,
                skipped_expectations: first.skipped_expectations,
                variables: Vec::new(),
                environment: BTreeMap::new(),
                changed: false,
                source,
                base,
                tree,
                matrix,
            }),
            _ => Err(fail(problems)),
        }
    }

    /// Text of the experiment: that of the file, with changes by `--set` and environment variables.
    pub fn source(&self) -> &str {
        &self.source.text
    }

    /// Whether `--set` or environment variables changed the text of the file.
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// Name of the file, as given.
    pub fn file(&self) -> &Path {
        &self.source.file
    }

    /// Axes of the matrix with their values, in the order of the file.
    pub fn axes(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.matrix.axes().map(|axis| (axis.as_str(), self.matrix.values(axis).unwrap_or_default()))
    }

    /// Cells of the matrix that `only` selects, in the order of the file.
    pub fn cells(&self, only: &Only) -> Result<Vec<Cell>, Errors> {
        only.pick(&self.matrix).map_err(Errors::bare)
    }

    /// The same experiment with `value` as the only value of `axis`, which may be a new value. It
    /// has no checks (`expect`).
    ///
    /// # Errors
    /// If the axis does not exist, or a cell with this value does not resolve.
    pub fn with_value(&self, axis: &str, value: &str) -> Result<Self, Errors> {
        let matrix = self.matrix.with_value(axis, value).map_err(Errors::bare)?;
        let (used, mut problems) = (&mut HashSet::new(), Vec::new());
        for cell in matrix.cells() {
            let (.., mut sink) = resolve_cell(&self.tree, &matrix, &cell, &self.base, used);
            problems.append(&mut sink.problems);
        }
        match distinct(problems) {
            none if none.is_empty() => Ok(Self { matrix, expect: Vec::new(), ..self.clone() }),
            problems => Err(Errors::new(self.source.clone(), problems)),
        }
    }

    /// Returns the plan of one run.
    ///
    /// # Errors
    /// If a file has disappeared since the experiment was read, or the cell is not part of this
    /// experiment.
    pub fn plan(&self, cell: &Cell, repeat: u32, seed: u64) -> Result<Plan, Errors> {
        let cells = self.matrix.cells();
        if !cells.contains(cell) {
            let problem = Problem::new(format!("the matrix has no cell {cell}"));
            return Err(Errors::bare(problem.label("use a cell that `cells` returns")));
        }
        let used = &mut HashSet::new();
        let (_, plan, sink) = resolve_cell(&self.tree, &self.matrix, cell, &self.base, used);
        match plan {
            Some(plan) if sink.problems.is_empty() => Ok(Plan { repeat, seed, ..plan }),
            _ => Err(Errors::new(self.source.clone(), distinct(sink.problems))),
        }
    }
}

/// The first axis has the place of the problem.
fn too_many_nodes(matrix: &Matrix, cells: usize) -> Problem {
    let text = format!("the {cells} cells of the matrix have over {MAX_NODES} nodes together");
    let axis = matrix.axes().next().map(|axis| matrix.place(axis));
    let problem = Problem::new(text).at(axis.unwrap_or_default());
    problem.label("use fewer values or fewer nodes, or split the experiment into several files")
}

/// Reads and resolves one cell, and adds the axes that it uses to `used`.
fn resolve_cell(
    tree: &Node,
    matrix: &Matrix,
    cell: &Cell,
    base: &Path,
    used: &mut HashSet<String>,
) -> (Option<File>, Option<Plan>, Sink) {
    let mut substitution = Substitution::new(matrix, cell);
    let tree = substitution.file(tree);
    used.extend(substitution.used);
    let mut sink = Sink {
        problems: substitution.problems,
        replaced: substitution.replaced,
        cell: cell.to_string(),
    };
    // Networks of edges may have profiles, so edges come first. Defaults come last and fill only
    // what neither the file nor a profile sets.
    let tree = defaults::expand(&profile::expand(&edges::expand(&tree), base, &mut sink));
    let file = File::read(&tree, &mut sink);
    let plan = file.as_ref().map(|file| resolve(file, cell, base, &mut sink));
    (file, plan, sink)
}

/// Settings that all cells share.
struct Settings {
    name: String,
    groups: Vec<String>,
    repeats: u32,
    seed: u64,
    clock: Clock,
    expect: Vec<Expect>,
    skipped_expectations: usize,
    reference: Option<PathBuf>,
    files: Vec<String>,
}

fn finish(
    file: File,
    plan: Plan,
    matrix: &Matrix,
    base: &Path,
    other_axes: bool,
    sink: &mut Sink,
) -> Settings {
    let mut expect = file.expect.unwrap_or_default();
    let all = expect.len();
    // `--set` may remove the values that a check names; the rest of the checks still count.
    expect.retain(|expect| !other_axes || !expect.names_missing_value(matrix));
    let skipped_expectations = all - expect.len();
    for file in file.files.iter().flatten() {
        let full = base.join(&file.value);
        if !full.exists() {
            let text = format!("`files` names {}, which does not exist", file.value);
            let problem = Problem::new(text).at(file.place);
            let problem = problem.label("paths are relative to the experiment file");
            let path = std::path::absolute(&full).unwrap_or(full);
            sink.add(problem.note(format!("Thingbed looked for {}", path.display())));
        }
    }
    let reference = file.reference.map(|reference| {
        let full = base.join(&reference.value);
        if !full.is_file() {
            let text = format!("the reference file `{}` does not exist", reference.value);
            let problem = Problem::new(text).at(reference.place);
            let problem = problem.label("paths are relative to the experiment file");
            sink.add(problem.note(format!("Thingbed looked for {}", full.display())));
        }
        std::path::absolute(&full).unwrap_or(full)
    });
    Settings {
        name: plan.experiment,
        groups: file.nodes.iter().flat_map(Named::names).cloned().collect(),
        repeats: file.repeats.map_or(1, |repeats| repeats.value),
        seed: plan.seed,
        clock: file.clock.map_or(Clock::default(), |clock| clock.value),
        expect,
        skipped_expectations,
        reference,
        files: file.files.unwrap_or_default().into_iter().map(|file| file.value).collect(),
    }
}

/// Removes duplicates: cells share most of the file and therefore most problems.
fn distinct(problems: Vec<Problem>) -> Vec<Problem> {
    let mut seen = HashSet::new();
    problems.into_iter().filter(|p| seen.insert((p.place, p.message.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_and_nodes_are_limited_together() {
        let text = |cells: u32| {
            let values: Vec<String> = (1..=cells).map(|ms| format!("{ms} ms")).collect();
            format!(
                "experiment: many\nmatrix: {{delay: [{}]}}\nnodes: {{a: {{count: 20000}}}}\nnetworks:\n  \
                 n: {{attach: [a], subnet: 10.0.0.0/16, links: {{a: {{up: {{delay: \"${{delay}}\"}}}}}}}}\n",
                values.join(", ")
            )
        };
        assert!(Experiment::parse(&text(2), "any.yaml", "").is_ok());
        let errors = Experiment::parse(&text(3), "any.yaml", "").unwrap_err().to_string();
        assert!(errors.contains("the 3 cells of the matrix have over 50000 nodes"), "{errors}");
    }
}
