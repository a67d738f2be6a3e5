import { readdirSync, readFileSync } from 'node:fs';
import { analyse } from 'scslre';
import t from 'tap';
import ts from 'typescript';

const src = new URL('../src/', import.meta.url);
const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .map((name) => name.replaceAll('\\', '/'))
  .filter((name) => name.endsWith('.ts') && !name.startsWith('generated/'));

/**
 * Built from parts, so no linter can read them. All have only bounded repetitions, and test/linear.test.ts gives them
 * hostile text.
 */
const assembled = ['core/privacy/redaction.ts', 'core/returns/return-class.ts', 'mail/compose/attachments.ts'];

/** Every regular expression in a file, with its line. */
function* expressionsOf(file: string): Generator<{ where: string; source: string | null; flags: string }> {
  const source = ts.createSourceFile(file, readFileSync(new URL(file, src), 'utf8'), ts.ScriptTarget.Latest);
  const nodes: ts.Node[] = [source];
  for (let node = nodes.pop(); node; node = nodes.pop()) {
    ts.forEachChild(node, (child) => void nodes.push(child));
    const where = () => `src/${file}:${source.getLineAndCharacterOfPosition(node?.end ?? 0).line + 1}`;
    if (ts.isRegularExpressionLiteral(node)) {
      const end = node.text.lastIndexOf('/');
      yield { where: where(), source: node.text.slice(1, end), flags: node.text.slice(end + 1) };
    } else if (ts.isNewExpression(node) && ts.isIdentifier(node.expression) && node.expression.text === 'RegExp') {
      yield { where: where(), source: null, flags: '' };
    }
  }
}

t.test('DOS-06: no regular expression goes back over a text again and again', async (t) => {
  let count = 0;
  for (const file of files) {
    for (const { where, source, flags } of expressionsOf(file)) {
      count += 1;
      if (source === null) {
        t.ok(assembled.includes(file), `${where} is built where nothing can check it`);
        continue;
      }
      const [report] = analyse({ source, flags }, { maxReports: 1 }).reports;
      if (report)
        t.fail(
          `${where} takes ${report.exponential ? 'exponential' : 'quadratic'} time: /${source.slice(0, 200)}/${flags}`,
        );
    }
  }
  t.ok(count > 250, `${count} regular expressions`);
});
