import { useComputedColorScheme, VisuallyHidden } from '@mantine/core';
import { useElementSize } from '@mantine/hooks';
import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { exact } from '../words/format.ts';

export interface Series {
  name: string;
  /** A color of the stylesheet, such as `--good`. */
  color: string;
  /** One value for each time; null if there is none. */
  values: (number | null)[];
  filled?: boolean;
}

interface Props {
  /** What it shows, for screen readers. */
  label: string;
  /** When each interval begins, oldest first. The last one is under way: its values are of a part of it, and are marked so. */
  times: Date[];
  series: Series[];
  /** Formats values as words. */
  format: (value: number) => string;
  /** How far apart the labels of the axis may be, and how they are written; without this any distance, as values are. */
  axis?: { steps: number[]; label: (value: number, step: number) => string };
}

const height = 190;

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const calendar = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });

/** A label of the time axis, for a time in seconds; `step` is the distance between labels, in seconds. */
function moment(seconds: number, step: number): string {
  const at = new Date(seconds * 1000);
  const isMidnight = at.getHours() + at.getMinutes() === 0;
  return step >= 86_400 || isMidnight ? calendar.format(at) : clock.format(at);
}

/** Its days are those of UTC, so for most readers they begin and end at some hour: both are said. */
function intervalFrom(at: Date, ms: number): string {
  const end = new Date(at.getTime() + ms);
  const [day, from, to] = [calendar.format(at), clock.format(at), clock.format(end)];
  if (ms < 86_400_000) return `${day}, ${from}–${to}`;
  return at.getHours() + at.getMinutes() === 0 ? day : `${day}, ${from} – ${calendar.format(end)}, ${to}`;
}

const wordsFor = (value: number | null | undefined, format: (value: number) => string) =>
  value === null || value === undefined ? '–' : format(value);

/** Where the slider stands. */
function showChosen(plot: uPlot | null, slider: HTMLInputElement): void {
  const time = plot?.data[0][slider.valueAsNumber];
  if (time !== undefined) plot?.setCursor({ left: plot.valToPos(time, 'x'), top: 0 });
}

/** The mark of the interval that is under way, in words. */
const underWay = 'still under way';

/** Hatches what the last interval takes of the plot, behind the lines: what falls there only has not yet risen. */
function hatchLast(plot: uPlot, color: string): void {
  const { ctx, bbox, data } = plot;
  const [before, last] = data[0].slice(-2);
  if (before === undefined || last === undefined) return;
  const left = plot.valToPos(before, 'x', true);
  const width = plot.valToPos(last, 'x', true) - left;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, bbox.top, width, bbox.height);
  ctx.clip();
  ctx.beginPath();
  for (let x = left - bbox.height; x < left + width; x += 6 * uPlot.pxRatio) {
    ctx.moveTo(x, bbox.top + bbox.height);
    ctx.lineTo(x + bbox.height, bbox.top);
  }
  ctx.strokeStyle = color;
  ctx.lineWidth = uPlot.pxRatio;
  ctx.stroke();
  ctx.restore();
}

/** The color of a line, which is paler on its way into the last interval. */
function palerAtEnd(plot: uPlot, color: string): CanvasGradient | string {
  const [before, last] = plot.data[0].slice(-2);
  const [from, to] = [before, last].map((time) => plot.valToPos(time ?? 0, 'x', true));
  if (before === undefined || from === undefined || to === undefined || !Number.isFinite(from + to)) return color;
  const start = plot.bbox.left;
  const stroke = plot.ctx.createLinearGradient(start, 0, to, 0);
  const at = Math.min(1, Math.max(0, (from - start) / (to - start)));
  for (const [offset, shade] of [
    [0, color],
    [at, color],
    [at, `color-mix(in srgb, ${color} 55%, transparent)`],
  ] as const)
    stroke.addColorStop(offset, shade);
  return stroke;
}

/** How the lines are drawn, in the colors of the scheme that is in use now. */
function optionsFor(
  width: number,
  series: Series[],
  { format, axis: values }: Pick<Props, 'format' | 'axis'>,
): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string) => style.getPropertyValue(name).trim();
  const colorAt = (_: uPlot, index: number) => color(series[index - 1]?.color ?? '--ink');
  const axis = { stroke: color('--ink-3'), grid: { stroke: color('--line'), width: 1 }, ticks: { show: false } };
  return {
    width,
    height,
    legend: { show: false },
    cursor: { y: false, points: { size: 6, stroke: colorAt, fill: colorAt } },
    scales: { y: { range: (_, __, max) => [0, Math.max(max * 1.1, 1)] } },
    axes: [
      { ...axis, size: 28, values: (_, splits, __, ___, step) => splits.map((split) => moment(split, step)) },
      {
        ...axis,
        size: 56,
        ...(values ? { incrs: values.steps } : {}),
        values: (_, splits, __, ___, step) =>
          splits.map((value) => (value % 1 === 0 ? (values?.label(value, step) ?? format(value)) : '')),
      },
    ],
    series: [
      {},
      ...series.map((one) => ({
        label: one.name,
        stroke: (plot: uPlot) => palerAtEnd(plot, color(one.color)),
        width: 1.6,
        // A single value draws no line.
        points: { show: one.values.filter((value) => value !== null).length < 2, size: 7, stroke: color(one.color) },
        ...(one.filled ? { fill: `color-mix(in srgb, ${color(one.color)} 12%, transparent)` } : {}),
      })),
    ],
  };
}

/**
 * Lines over time, with the values at the pointer, or where the arrow keys lead, and the same data as a table for screen
 * readers.
 */
export function Chart({ label, times, series, format, axis }: Props) {
  const { ref: box, width } = useElementSize();
  const target = useRef<HTMLDivElement>(null);
  const legend = useRef<HTMLElement>(null);
  const slider = useRef<HTMLInputElement>(null);
  const note = useRef<HTMLSpanElement>(null);
  const drawn = useRef<uPlot>(null);
  const scheme = useComputedColorScheme('light');
  const [first, second] = times;
  const step = first && second ? second.getTime() - first.getTime() : 0;
  useEffect(() => {
    if (!target.current || width === 0) return;
    const showAt = ({ cursor: { idx } }: uPlot) => {
      const at = idx === null || idx === undefined ? undefined : times[idx];
      const shown = series.map(({ values }) => (at ? wordsFor(values[idx ?? 0], format) : ''));
      const [...places] = legend.current?.querySelectorAll('b') ?? [];
      const isLast = idx === times.length - 1;
      const time = at ? intervalFrom(at, step) : '';
      note.current?.toggleAttribute('data-other', Boolean(at) && !isLast);
      for (const [index, place] of places.entries()) place.textContent = [...shown, time][index] ?? '';
      const words = series.map(({ name }, index) => `${name} ${shown[index]}`);
      slider.current?.setAttribute(
        'aria-valuetext',
        at ? `from ${exact(at)}${isLast ? `, ${underWay}` : ''}: ${words.join(', ')}` : '',
      );
    };
    const options = optionsFor(width, series, axis ? { format, axis } : { format });
    const hooks: uPlot.Options['hooks'] = {
      setCursor: [showAt],
      drawClear: [
        (plot) => hatchLast(plot, getComputedStyle(document.documentElement).getPropertyValue('--line-strong')),
      ],
      // New data is drawn anew.
      ready: [(plot) => slider.current?.matches(':focus') && showChosen(plot, slider.current)],
    };
    const data = [times.map((time) => time.getTime() / 1000), ...series.map(({ values }) => values)];
    const plot = new uPlot({ ...options, hooks }, data as uPlot.AlignedData, target.current);
    drawn.current = plot;
    // The colors depend on the color scheme: redraw when it changes.
    void scheme;
    return () => plot.destroy();
  }, [times, step, series, format, axis, width, scheme]);
  return (
    <figure className="chart" aria-label={label}>
      <VisuallyHidden component="div">
        <Values times={times} series={series} format={format} />
      </VisuallyHidden>
      <VisuallyHidden>
        <input
          type="range"
          ref={slider}
          // Another period begins at its end.
          key={times.length}
          max={times.length - 1}
          defaultValue={times.length - 1}
          // There may be several charts: a list of the fields of the page has to tell them apart.
          aria-label={`${label}: show the values at`}
          onFocus={({ currentTarget }) => showChosen(drawn.current, currentTarget)}
          onInput={({ currentTarget }) => showChosen(drawn.current, currentTarget)}
          onBlur={() => drawn.current?.setCursor({ left: -10, top: -10 })}
        />
      </VisuallyHidden>
      <div ref={box}>
        <div ref={target} aria-hidden="true" style={{ height }} />
      </div>
      <figcaption className="chart-legend" ref={legend}>
        {series.map(({ name, color }) => (
          <span key={name}>
            <span className="swatch" style={{ background: `var(${color})` }} />
            {name}
            <b />
          </span>
        ))}
        <span className="under-way" ref={note}>
          <span className="swatch" />
          {underWay}
        </span>
        <b
          className="time"
          style={{ minWidth: `${1 + Math.max(...times.map((at) => intervalFrom(at, step).length))}ch` }}
        />
      </figcaption>
    </figure>
  );
}

function Values({ times, series, format }: Omit<Props, 'label' | 'axis'>) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">From</th>
          {series.map(({ name }) => (
            <th scope="col" key={name}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {times.map((time, index) => (
          <tr key={time.getTime()}>
            <th scope="row">
              {exact(time)}
              {index === times.length - 1 && `, ${underWay}`}
            </th>
            {series.map(({ name, values }) => (
              <td key={name}>{wordsFor(values[index], format)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
