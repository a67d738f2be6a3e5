import { Link } from 'wouter';

/** A number with its name. */
export interface Tile {
  name: string;
  value: string;
  more: string;
  /** Where the emails that were counted are listed. */
  href?: string;
}

export function Tiles({ tiles }: { tiles: Tile[] }) {
  return (
    <div className="tiles">
      {tiles.map(({ name, value, more, href }) => {
        const content = (
          <>
            <div className="name">{name}</div>
            <div className="value">{value}</div>
            <div className="more">{more}</div>
          </>
        );
        return href ? (
          <Link className="tile" key={name} href={href}>
            {content}
          </Link>
        ) : (
          <div className="tile" key={name}>
            {content}
          </div>
        );
      })}
    </div>
  );
}
