import { globSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import ts from 'typescript';
import { documentOf, repository } from './reading.ts';

/** A project that has installed the client, as strict as most are. */
const options: ts.CompilerOptions = {
  strict: true,
  noEmit: true,
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext,
  moduleDetection: ts.ModuleDetectionKind.Force,
  skipLibCheck: true,
  types: ['node'],
  // For the client's own files, from which its build makes declarations.
  allowImportingTsExtensions: true,
};

/** Declarations that the excerpts assume. */
const around = `declare const request: import('node:http').IncomingMessage;\ndeclare const secret: string;\n`;

/** The documents' programs that use the typed client, by the file and line for error messages. */
function programs(): Map<string, string> {
  const found = new Map<string, string>();
  for (const path of ['README.md', ...globSync('docs/*.md', { cwd: repository }).sort()])
    for (const { language, text, line } of documentOf(path))
      if (language === 'js' && text.includes("from 'sendwright/client'"))
        found.set(join(repository, `${path}-line-${line}.mts`), text);
  return found;
}

t.test("the documents' examples of the typed client compile with --strict", async (t) => {
  const given = programs();
  t.ok(given.size > 10);
  const ambient = join(repository, 'docs-around.d.ts');
  const texts = new Map([...given, [ambient, around]]);
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile, getSourceFile } = host;
  host.fileExists = (name) => texts.has(name) || fileExists(name);
  host.readFile = (name) => texts.get(name) ?? readFile(name);
  host.getSourceFile = (name, version, ...rest) => {
    const text = texts.get(name);
    return text === undefined ? getSourceFile(name, version, ...rest) : ts.createSourceFile(name, text, version);
  };
  host.getCurrentDirectory = () => repository;
  const program = ts.createProgram([...texts.keys()], options, host);
  const wrong = [...given.keys()].flatMap((name) => {
    const file = program.getSourceFile(name);
    const found = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
    return found.map(({ start = 0, messageText }) => {
      const { line } = file?.getLineAndCharacterOfPosition(start) ?? { line: 0 };
      return `${name.slice(repository.length + 1)}, ${line + 1}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`;
    });
  });
  t.same(wrong, []);
});
